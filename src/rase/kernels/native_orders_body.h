/* The two trees of counts, compiled once for every machine and once for newer ones.
 *
 * Included with NAMED(name) giving the version's names, TARGET its attributes, SELECT(word, k) the
 * place of the k-th set bit (from 0), PICK(word, k) that bit alone, PLACE(bit) where it stands,
 * POPCOUNT(word) how many are set, and STEP and RAISE the work on one node.
 *
 * A tree stands over a bitmap of items, 64 to a leaf. A node holds, for each of its 16 children,
 * how many items lie in the children before it. Looking for the v-th item, the child is the last
 * whose entry is at most v, and taking the item lowers exactly the entries above v: both are the
 * same 16 comparisons, without a branch. */

/* `levels` is a constant in every caller. Unrolled, each level has instructions of its own, which
 * lets the processor learn that only the topmost node is written and read in every turn: it then
 * looks for several items at once. */
TARGET static inline __attribute__((always_inline)) int NAMED(take_through)(
    struct tree *tree, const uint64_t *codes, int64_t *out, size_t n, const int levels)
{
    int strange = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t code = codes[i];
        if (code >= n - i) {
            code = code % (n - i);
            strange = 1;
        }
        int32_t v = (int32_t)code;
        size_t node = 0;
#pragma GCC unroll 8
        for (int level = levels - 1; level >= 0; level--) {
            int32_t *before = tree->level[level] + 16 * node;
            size_t child = STEP(before, v);
            v -= before[child];
            node = 16 * node + child;
        }
        uint64_t word = tree->leaves[node];
        unsigned bit = SELECT(word, (unsigned)v);
        tree->leaves[node] = word & ~((uint64_t)1 << bit);
        out[i] = (int64_t)(64 * node + bit);
    }
    return strange;
}

TARGET static int NAMED(take_all)(struct tree *tree, const uint64_t *codes, int64_t *out, size_t n)
{
    switch (tree->levels) {
    case 1: return NAMED(take_through)(tree, codes, out, n, 1);
    case 2: return NAMED(take_through)(tree, codes, out, n, 2);
    case 3: return NAMED(take_through)(tree, codes, out, n, 3);
    case 4: return NAMED(take_through)(tree, codes, out, n, 4);
    case 5: return NAMED(take_through)(tree, codes, out, n, 5);
    case 6: return NAMED(take_through)(tree, codes, out, n, 6);
    default: return NAMED(take_through)(tree, codes, out, n, 7);
    }
}

/* Where codes are small, the item is among the first words of the bitmap that have any left: no
 * need for a tree. The first such word stays in a register. Ends early, with the number of places
 * done, when more than a few words a place had to be looked at; the bitmap is then as the tree
 * needs it. */
TARGET static size_t NAMED(take_near)(uint64_t *leaves, const uint64_t *codes, int64_t *out,
                                      size_t n, int *strange)
{
    size_t first = 0, passed = 0, i;
    uint64_t head = leaves[0];
    for (i = 0; i < n && passed <= FEW * i + START; i++) {
        uint64_t code = codes[i];
        if (code >= n - i) {
            code = code % (n - i);
            *strange = 1;
        }
        for (; !head; passed++)
            head = leaves[++first];
        uint64_t count = (uint64_t)POPCOUNT(head);
        if (code < count) {
            uint64_t taken = PICK(head, (unsigned)code);
            head ^= taken;
            out[i] = (int64_t)(64 * first + PLACE(taken));
            continue;
        }
        size_t place = first;
        while (code >= count) {
            code -= count;
            count = (uint64_t)POPCOUNT(leaves[++place]);
        }
        passed += place - first;
        uint64_t taken = PICK(leaves[place], (unsigned)code);
        leaves[place] ^= taken;
        out[i] = (int64_t)(64 * place + PLACE(taken));
    }
    leaves[first] = head;
    memset(leaves, 0, first * sizeof(uint64_t));
    return i;
}

/* How many items are left in a node of the lowest level; 0 where there is no such node. */
TARGET static inline int32_t NAMED(left_in)(const struct tree *tree, size_t node)
{
    size_t last = 16 * node + 15;
    if (node >= tree->node_count[0])
        return 0;
    return tree->level[0][last] +
           (last < tree->leaf_count ? (int32_t)POPCOUNT(tree->leaves[last]) : 0);
}

/* Where codes stay below some thousands, the item is in one of the first 16 nodes of the lowest
 * level that have any left: two steps, however high the tree. Ends early, with the number of places
 * done, when nodes behind those were looked at too often; the bitmap is then as the tree needs it. */
TARGET static size_t NAMED(take_ahead)(struct tree *tree, const uint64_t *codes, int64_t *out,
                                       size_t n, int *strange)
{
    int32_t before[16], total = 0;
    size_t first = 0, passed = 0, i;
    for (int child = 0; child < 16; child++) {
        before[child] = total;
        total += NAMED(left_in)(tree, (size_t)child);
    }
    for (i = 0; i < n && passed <= i / SELDOM + START; i++) {
        uint64_t code = codes[i];
        if (code >= n - i) {
            code = code % (n - i);
            *strange = 1;
        }
        while (!before[1]) {
            memmove(before, before + 1, 15 * sizeof(int32_t));
            before[15] = total;
            total += NAMED(left_in)(tree, first++ + 16);
        }
        int32_t v = (int32_t)code;
        size_t node = first;
        if (v < total) {
            size_t child = STEP(before, v);
            v -= before[child];
            node += child;
            total--;
        } else {
            node += 16;
            v -= total;
            for (int32_t here; v >= (here = NAMED(left_in)(tree, node)); node++, passed++)
                v -= here;
        }
        int32_t *lowest = tree->level[0] + 16 * node;
        size_t child = STEP(lowest, v), leaf = 16 * node + child;
        uint64_t taken = PICK(tree->leaves[leaf], (unsigned)(v - lowest[child]));
        tree->leaves[leaf] ^= taken;
        out[i] = (int64_t)(64 * leaf + PLACE(taken));
    }
    return i;
}

/* Up to 64 items: the bitmap is one word. Four rounds go together, since each waits on itself. */
TARGET static int NAMED(take_few)(const uint64_t *codes, int64_t *out, size_t rounds, size_t n)
{
    const uint64_t all = n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1;
    int strange = 0;
    for (size_t first = 0; first < rounds; first += 4) {
        uint64_t words[4] = {all, all, all, all};
        size_t together = rounds - first < 4 ? rounds - first : 4;
        for (size_t i = 0; i < n; i++) {
#pragma GCC unroll 4
            for (size_t lane = 0; lane < 4; lane++) {
                if (lane >= together)
                    break;
                size_t place = (first + lane) * n + i;
                uint64_t code = codes[place];
                if (code >= n - i) {
                    code = code % (n - i);
                    strange = 1;
                }
                unsigned bit = SELECT(words[lane], (unsigned)code);
                words[lane] &= ~((uint64_t)1 << bit);
                out[place] = (int64_t)bit;
            }
        }
    }
    return strange;
}

TARGET static inline __attribute__((always_inline)) enum outcome NAMED(count_through)(
    struct tree *tree, const uint32_t *items, size_t n, uint64_t *total, const int levels)
{
    uint64_t rising = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t item = items[i];
        if (item >= n)
            return NOT_DONE;
        size_t place = item >> 6;
        uint64_t bit = (uint64_t)1 << (item & 63);
        uint64_t word = tree->leaves[place];
        if (word & bit)
            return NOT_DONE;
        tree->leaves[place] = word | bit;
        uint64_t smaller = (uint64_t)POPCOUNT(word & (bit - 1));
#pragma GCC unroll 8
        for (int level = 0; level < levels; level++) {
            int32_t child = (int32_t)(place & 15);
            place >>= 4;
            int32_t *before = tree->level[level] + 16 * place;
            smaller += (uint64_t)before[child];
            RAISE(before, behind + 15 - child);
        }
        rising += smaller;
    }
    *total = (uint64_t)n * (uint64_t)(n ? n - 1 : 0) / 2 - rising;
    return DONE;
}

TARGET static enum outcome NAMED(count_all)(struct tree *tree, const uint32_t *items, size_t n,
                                            uint64_t *total)
{
    switch (tree->levels) {
    case 0: return NAMED(count_through)(tree, items, n, total, 0);
    case 1: return NAMED(count_through)(tree, items, n, total, 1);
    case 2: return NAMED(count_through)(tree, items, n, total, 2);
    case 3: return NAMED(count_through)(tree, items, n, total, 3);
    case 4: return NAMED(count_through)(tree, items, n, total, 4);
    case 5: return NAMED(count_through)(tree, items, n, total, 5);
    case 6: return NAMED(count_through)(tree, items, n, total, 6);
    default: return NAMED(count_through)(tree, items, n, total, 7);
    }
}
