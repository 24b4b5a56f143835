/* Orders: uniform ones from words, those that codes name, and counts of their inversions. */

#include <stdlib.h>
#include <string.h>

#include "native.h"

#define AHEAD 32
#ifdef __GNUC__
#define PREFETCH(place) __builtin_prefetch(place, 1)
#else
#define PREFETCH(place) ((void)0)
#endif
#define LINE 64
#define MOST_LEVELS 8
/* How many words of a bitmap may be passed for each place, and at the start, before a tree
 * serves. */
#define FEW 2
#define START 64
/* Of how many places one may pass a node. */
#define SELDOM 8

struct tree {
    uint64_t *leaves;
    size_t leaf_count;
    int32_t *level[MOST_LEVELS]; /* the lowest first; 16 entries a node */
    size_t node_count[MOST_LEVELS];
    int levels;
};

/* From entry 15 - child on: 1 for children behind the child, 0 for it and those before. */
static const int32_t behind[31] = {[16] = 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static unsigned select_portable(uint64_t word, unsigned k);

#define NAMED(name) name##_portable
#define TARGET
#define SELECT(word, k) select_portable(word, k)
#define PICK(word, k) ((uint64_t)1 << select_portable(word, k))
#define PLACE(bit) ((size_t)count_portable((bit) - 1))
#define STEP(before, v) step_portable(before, v)
#define RAISE(before, more) raise_portable(before, more)
#define POPCOUNT(word) count_portable(word)
static inline void raise_portable(int32_t *before, const int32_t *more)
{
    for (int j = 0; j < 16; j++)
        before[j] += more[j];
}
static inline size_t step_portable(int32_t *before, int32_t v)
{
    int32_t above = 0;
    for (int j = 0; j < 16; j++) {
        int32_t is_above = before[j] > v;
        above += is_above;
        before[j] -= is_above;
    }
    return (size_t)(15 - above);
}
static inline unsigned count_portable(uint64_t word)
{
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(word * UINT64_C(0x0101010101010101) >> 56);
}
#include "native_orders_body.h"
#undef NAMED
#undef TARGET
#undef SELECT
#undef PICK
#undef PLACE
#undef STEP
#undef RAISE
#undef POPCOUNT

#if defined(__x86_64__) && defined(__GNUC__) && RASE_INSTRUCTIONS > 0
#define HAS_NEWER 1
#include <immintrin.h>
#define SELECT(word, k) ((unsigned)_tzcnt_u64(_pdep_u64((uint64_t)1 << (k), (word))))
#define PICK(word, k) _pdep_u64((uint64_t)1 << (k), (word))
#define PLACE(bit) ((size_t)_tzcnt_u64(bit))
#define POPCOUNT(word) _mm_popcnt_u64(word)
#define NAMED(name) name##_newer
#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define STEP(before, v) step_newer(before, v)
#define RAISE(before, more) raise_newer(before, more)
TARGET static inline __attribute__((always_inline)) void raise_newer(int32_t *before,
                                                                     const int32_t *more)
{
    __m256i *halves = (__m256i *)before;
    const __m256i *added = (const __m256i *)more;
    __m256i first = _mm256_add_epi32(_mm256_loadu_si256(halves), _mm256_loadu_si256(added));
    __m256i second =
        _mm256_add_epi32(_mm256_loadu_si256(halves + 1), _mm256_loadu_si256(added + 1));
    _mm256_storeu_si256(halves, first);
    _mm256_storeu_si256(halves + 1, second);
}
TARGET static inline __attribute__((always_inline)) size_t step_newer(int32_t *before, int32_t v)
{
    __m256i *halves = (__m256i *)before;
    __m256i first = _mm256_loadu_si256(halves), second = _mm256_loadu_si256(halves + 1);
    __m256i limit = _mm256_set1_epi32(v);
    __m256i above_first = _mm256_cmpgt_epi32(first, limit);
    __m256i above_second = _mm256_cmpgt_epi32(second, limit);
    /* A comparison that holds is -1. */
    _mm256_storeu_si256(halves, _mm256_add_epi32(first, above_first));
    _mm256_storeu_si256(halves + 1, _mm256_add_epi32(second, above_second));
    unsigned is_above = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(above_first)) |
                        (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(above_second)) << 8;
    return (size_t)_tzcnt_u32(is_above | 1u << 16) - 1;
}
#include "native_orders_body.h"
#undef NAMED
#undef TARGET
#undef STEP
#undef RAISE

/* A node is one register. */
#define NAMED(name) name##_newest
#define TARGET __attribute__((target("avx512f,avx2,bmi,bmi2,popcnt")))
#define STEP(before, v) step_newest(before, v)
#define RAISE(before, more) raise_newest(before, more)
TARGET static inline __attribute__((always_inline)) void raise_newest(int32_t *before,
                                                                      const int32_t *more)
{
    __m512i sum = _mm512_add_epi32(_mm512_loadu_si512(before), _mm512_loadu_si512(more));
    _mm512_storeu_si512(before, sum);
}
TARGET static inline __attribute__((always_inline)) size_t step_newest(int32_t *before, int32_t v)
{
    __m512i node = _mm512_loadu_si512(before);
    __mmask16 is_above = _mm512_cmpgt_epi32_mask(node, _mm512_set1_epi32(v));
    _mm512_storeu_si512(before,
                        _mm512_mask_sub_epi32(node, is_above, node, _mm512_set1_epi32(1)));
    return (size_t)_tzcnt_u32((unsigned)is_above | 1u << 16) - 1;
}
#include "native_orders_body.h"
#undef NAMED
#undef TARGET
#undef SELECT
#undef PICK
#undef PLACE
#undef STEP
#undef RAISE
#undef POPCOUNT
static int is_newer(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}
static int is_newest(void)
{
    return RASE_INSTRUCTIONS > 1 && is_newer() && __builtin_cpu_supports("avx512f");
}
#define CHOSEN(name)                                                                               \
    (is_newest() ? name##_newest : is_newer() ? name##_newer : name##_portable)
#else
#define HAS_NEWER 0
#define CHOSEN(name) name##_portable
#endif

const char *instructions_used(void)
{
#if HAS_NEWER
    return is_newer() ? "avx2 and bmi2" : "portable";
#else
    return "portable";
#endif
}

/* The place of the k-th set bit: the byte by running sums in parallel, then within it. */
static unsigned select_portable(uint64_t word, unsigned k)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t sums = word - (word >> 1 & UINT64_C(0x5555555555555555));
    sums = (sums & UINT64_C(0x3333333333333333)) + (sums >> 2 & UINT64_C(0x3333333333333333));
    sums = ((sums + (sums >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f)) * ones;
    uint64_t is_past = ((k * ones | 0x80 * ones) - sums) >> 7 & ones;
    unsigned place = 8 * (unsigned)(is_past * ones >> 56);
    unsigned rest = k - (unsigned)((sums << 8) >> place & 0xff);
    unsigned byte = (unsigned)(word >> place & 0xff);
    for (; rest; rest--)
        byte &= byte - 1;
    for (; !(byte & 1); byte >>= 1)
        place++;
    return place;
}

/* Lay out the bitmap and the levels above it in one block; 0 if there is no memory. */
static int grow(struct tree *tree, size_t n)
{
    size_t entries = 0, nodes = (n + 63) / 64;
    tree->leaf_count = nodes;
    tree->levels = 0;
    while (nodes > 1) {
        nodes = (nodes + 15) / 16;
        tree->node_count[tree->levels++] = nodes;
        entries += 16 * nodes;
    }
    tree->leaves = malloc(tree->leaf_count * sizeof(uint64_t) + entries * sizeof(int32_t) + LINE);
    if (!tree->leaves)
        return 0;
    /* A node fills one line of the cache. */
    char *end = (char *)(tree->leaves + tree->leaf_count);
    int32_t *next = (int32_t *)(end + (LINE - (uintptr_t)end % LINE) % LINE);
    for (int level = 0; level < tree->levels; level++) {
        tree->level[level] = next;
        next += 16 * tree->node_count[level];
    }
    return 1;
}

static void fill_leaves(struct tree *tree, size_t n)
{
    memset(tree->leaves, 0xff, tree->leaf_count * sizeof(uint64_t));
    if (n % 64)
        tree->leaves[tree->leaf_count - 1] = ((uint64_t)1 << n % 64) - 1;
}

/* Note for every child how many items of the bitmap its node holds before it. */
static void fill_levels(struct tree *tree)
{
    int32_t total = 0, start[MOST_LEVELS] = {0};
    for (size_t leaf = 0; leaf < tree->leaf_count; leaf++) {
        size_t child = leaf;
        for (int level = 0; level < tree->levels; level++, child >>= 4) {
            start[level] = child % 16 ? start[level] : total;
            tree->level[level][child] = total - start[level];
            if (child % 16)
                break;
        }
        total += (int32_t)count_portable(tree->leaves[leaf]);
    }
    /* Children that are not there stand behind all items. */
    size_t children = tree->leaf_count;
    for (int level = 0; level < tree->levels; children = tree->node_count[level++])
        for (size_t child = children; child < 16 * tree->node_count[level]; child++)
            tree->level[level][child] = total - start[level];
}

static void clear(struct tree *tree)
{
    memset(tree->leaves, 0, tree->leaf_count * sizeof(uint64_t));
    for (int level = 0; level < tree->levels; level++)
        memset(tree->level[level], 0, 16 * tree->node_count[level] * sizeof(int32_t));
}

enum outcome orders_from_codes(const uint64_t *codes, int64_t *out, size_t rounds, size_t n,
                               int is_free)
{
    int strange = 0;
    if (n <= 64) {
        strange = CHOSEN(take_few)(codes, out, rounds, n);
        return strange && !is_free ? NOT_DONE : DONE;
    }
    struct tree tree;
    if (!grow(&tree, n))
        return NO_MEMORY;
    for (size_t round = 0; round < rounds; round++, codes += n, out += n) {
        fill_leaves(&tree, n);
        size_t done = CHOSEN(take_near)(tree.leaves, codes, out, n, &strange);
        if (done == n)
            continue;
        fill_levels(&tree);
        if (tree.levels > 2) {
            size_t more = CHOSEN(take_ahead)(&tree, codes + done, out + done, n - done, &strange);
            done += more;
            if (done == n)
                continue;
            if (more)
                fill_levels(&tree);
        }
        strange |= CHOSEN(take_all)(&tree, codes + done, out + done, n - done);
    }
    free(tree.leaves);
    return strange && !is_free ? NOT_DONE : DONE;
}

/* Count inversions among items that were gathered before: while the tree is walked, the processor
 * has no room left to wait for far memory. */
static enum outcome count_items(const uint32_t *items, size_t n, uint64_t *total)
{
    struct tree tree;
    if (!grow(&tree, n))
        return NO_MEMORY;
    clear(&tree);
    enum outcome outcome = CHOSEN(count_all)(&tree, items, n, total);
    free(tree.leaves);
    return outcome;
}

enum outcome count_inversions(const int64_t *order, size_t n, uint64_t *total)
{
    uint32_t *items = malloc(n * sizeof(uint32_t) + 1);
    if (!items)
        return NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        items[i] = (uint64_t)order[i] < n ? (uint32_t)order[i] : UINT32_MAX;
    enum outcome outcome = count_items(items, n, total);
    free(items);
    return outcome;
}

enum outcome count_disagreements(const int64_t *a, const int64_t *b, size_t n, uint64_t *total)
{
    uint32_t *places = malloc(2 * n * sizeof(uint32_t) + 1), *items = places + n;
    if (!places)
        return NO_MEMORY;
    /* An item that b lacks leaves a place without a number, which the count refuses. */
    memset(places, 0xff, n * sizeof(uint32_t));
    for (size_t i = 0; i < n; i++) {
        uint64_t item = (uint64_t)b[i];
        if (item < n)
            places[item] = (uint32_t)i;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t item = (uint64_t)a[i];
        items[i] = item < n ? places[item] : UINT32_MAX;
    }
    enum outcome outcome = count_items(items, n, total);
    free(places);
    return outcome;
}

enum outcome check_permutation(const int64_t *entries, size_t n)
{
    uint8_t *is_seen = calloc(n / 8 + 1, 1);
    if (!is_seen)
        return NO_MEMORY;
    enum outcome outcome = DONE;
    for (size_t i = 0; i < n; i++) {
        uint64_t item = (uint64_t)entries[i];
        if (item >= n || is_seen[item >> 3] & 1 << (item & 7)) {
            outcome = NOT_DONE;
            break;
        }
        is_seen[item >> 3] |= (uint8_t)(1 << (item & 7));
    }
    free(is_seen);
    return outcome;
}

/* Fisher and Yates' shuffle of each row in place: word i interchanges place i with one behind. */
enum outcome swap_rows(const uint64_t *words, uint64_t *rows, size_t rounds, size_t n)
{
    int again = 0;
    for (size_t round = 0; round < rounds; round++, words += n, rows += n) {
        for (size_t i = 0; i < n; i++) {
            size_t partner = i + (size_t)below(words[i], n - i, &again);
            uint64_t kept = rows[i];
            rows[i] = rows[partner];
            rows[partner] = kept;
        }
    }
    return again ? NOT_DONE : DONE;
}

enum outcome partners_of(const uint64_t *words, size_t start, size_t n, int64_t *out, size_t count)
{
    int again = 0;
    for (size_t i = 0; i < count; i++)
        out[i] = (int64_t)(start + i + below(words[i], n - start - i, &again));
    return again ? NOT_DONE : DONE;
}

/* Interchange places start, start + 1, ... of `entries` with their partners, in place. */
#define INTERCHANGE(name, type)                                                                    \
    static enum outcome name(const int64_t *partners, type *entries, size_t start, size_t n,       \
                             size_t count)                                                         \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            /* Partners lie anywhere: fetch them long before they are needed. */                   \
            if (i + AHEAD < count && (uint64_t)partners[i + AHEAD] < n)                            \
                PREFETCH(entries + partners[i + AHEAD]);                                           \
            uint64_t partner = (uint64_t)partners[i];                                              \
            if (partner >= n)                                                                      \
                return NOT_DONE;                                                                   \
            type kept = entries[start + i];                                                        \
            entries[start + i] = entries[partner];                                                 \
            entries[partner] = kept;                                                               \
        }                                                                                          \
        return DONE;                                                                               \
    }
INTERCHANGE(interchange_4, uint32_t)
INTERCHANGE(interchange_8, uint64_t)

enum outcome interchange(const int64_t *partners, void *entries, size_t size, size_t start,
                         size_t n, size_t count)
{
    return size == 4 ? interchange_4(partners, entries, start, n, count)
                     : interchange_8(partners, entries, start, n, count);
}

enum outcome order_from_swaps(const int64_t *partners, int64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (int64_t)i;
    for (size_t i = 0; i < n; i++) {
        uint64_t partner = (uint64_t)partners[i];
        if (partner >= n)
            return NOT_DONE;
        int64_t kept = out[i];
        out[i] = out[partner];
        out[partner] = kept;
    }
    return DONE;
}

/* Replace each item of an order by its value. */
enum outcome replace_items(uint64_t *order, const uint64_t *values, size_t n)
{
    int strange = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t item = order[i];
        strange |= item >= n;
        order[i] = values[item < n ? item : 0];
    }
    return strange ? NOT_DONE : DONE;
}
