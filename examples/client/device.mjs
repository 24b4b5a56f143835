// A device of RASE in JavaScript, written from docs/reference/specification.md alone.
//
//     node device.mjs KIT READING [ROUNDS]
//
// KIT is what `rase conformance serve` writes. Every device of the kit enrols, fetches its tokens
// and reports READING in ROUNDS rounds (2). Node.js 20 or newer; no package is needed. Its memory is
// the process: a real device stores token seed, report and budget before it sends anything.

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import * as crypto from "node:crypto";

// ---------------------------------------------------------------- bytes

const utf8 = (text) => Buffer.from(text, "utf8");
const join = (...parts) => Buffer.concat(parts.map((part) => (typeof part === "string" ? utf8(part) : part)));
const sha256 = (...parts) => crypto.createHash("sha256").update(join(...parts)).digest();
const sha384 = (...parts) => crypto.createHash("sha384").update(join(...parts)).digest();
const hmac = (key, ...parts) => crypto.createHmac("sha256", key).update(join(...parts)).digest();
const toBig = (bytes) => BigInt("0x" + (bytes.length ? Buffer.from(bytes).toString("hex") : "0"));
const fromBig = (number, size) => Buffer.from(number.toString(16).padStart(2 * size, "0"), "hex");
const u16 = (number) => fromBig(BigInt(number), 2);
const u32 = (number) => fromBig(BigInt(number), 4);

// ---------------------------------------------------------------- keys of 32 bytes

const DER = {
  ed25519: { private: "302e020100300506032b657004220420", public: "302a300506032b6570032100" },
  x25519: { private: "302e020100300506032b656e04220420", public: "302a300506032b656e032100" },
};

function keyOf(curve, kind, raw) {
  const key = Buffer.concat([Buffer.from(DER[curve][kind], "hex"), raw]);
  return kind === "private"
    ? crypto.createPrivateKey({ key, format: "der", type: "pkcs8" })
    : crypto.createPublicKey({ key, format: "der", type: "spki" });
}

const publicOf = (curve, secret) =>
  crypto.createPublicKey(keyOf(curve, "private", secret)).export({ format: "der", type: "spki" }).subarray(-32);
const sign = (secret, message) => crypto.sign(null, message, keyOf("ed25519", "private", secret));
const isSigned = (key, message, signature) =>
  crypto.verify(null, message, keyOf("ed25519", "public", key), signature);
const x25519 = (secret, point) =>
  crypto.diffieHellman({ privateKey: keyOf("x25519", "private", secret), publicKey: keyOf("x25519", "public", point) });

// ---------------------------------------------------------------- CBOR, RFC 8949 4.2.1

export function encode(value) {
  if (value === null) return Buffer.from([0xf6]);
  if (typeof value === "boolean") return Buffer.from([value ? 0xf5 : 0xf4]);
  if (typeof value === "number" || typeof value === "bigint") {
    const number = BigInt(value);
    return number < 0n ? head(1, -1n - number) : head(0, number);
  }
  if (typeof value === "string") return join(head(3, BigInt(utf8(value).length)), value);
  if (Buffer.isBuffer(value)) return join(head(2, BigInt(value.length)), value);
  if (Array.isArray(value)) return join(head(4, BigInt(value.length)), ...value.map(encode));
  throw new Error("a device sends no other type");
}

function head(major, number) {
  if (number < 24n) return Buffer.from([(major << 5) | Number(number)]);
  const [code, size] = number < 256n ? [24, 1] : number < 65536n ? [25, 2] : number < 2n ** 32n ? [26, 4] : [27, 8];
  return join(Buffer.from([(major << 5) | code]), fromBig(number, size));
}

export function decode(bytes) {
  let at = 0;
  const take = (size) => {
    if (at + size > bytes.length) throw new Error("CBOR ends too soon");
    return bytes.subarray(at, (at += size));
  };
  function read() {
    const first = take(1)[0];
    const [major, code] = [first >> 5, first & 31];
    if (major === 7) {
      if (code === 20 || code === 21) return code === 21;
      if (code === 22) return null;
      if (code === 25) return half(take(2).readUInt16BE());
      if (code === 26) return take(4).readFloatBE();
      if (code === 27) return take(8).readDoubleBE();
      throw new Error("unknown simple value");
    }
    const number = code < 24 ? BigInt(code) : code < 28 ? toBig(take(1 << (code - 24))) : undefined;
    if (number === undefined || major === 6) throw new Error("tags and indefinite lengths are refused");
    const count = Number(number);
    if (major === 0) return count;
    if (major === 1) return -1 - count;
    if (major === 2) return Buffer.from(take(count));
    if (major === 3) return take(count).toString("utf8");
    if (major === 4) return Array.from({ length: count }, read);
    return Object.fromEntries(Array.from({ length: count }, () => [read(), read()]));
  }
  const value = read();
  if (at !== bytes.length) throw new Error("bytes after the end");
  return value;
}

function half(bits) {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
  return bits >> 15 ? -size : size;
}

// ---------------------------------------------------------------- HPKE base mode, RFC 9180

const KEM = join("KEM", u16(0x0020));
const SUITE = join("HPKE", u16(0x0020), u16(0x0001), u16(0x0003));
const extract = (salt, suite, label, secret) => hmac(salt, "HPKE-v1", suite, label, secret);
const expand = (key, suite, label, info, size) =>
  hmac(key, u16(size), "HPKE-v1", suite, label, info, Buffer.from([1])).subarray(0, size);

export function seal(publicKey, info, plaintext, ephemeral = crypto.randomBytes(32)) {
  const encapsulated = publicOf("x25519", ephemeral);
  const shared = x25519(ephemeral, publicKey);
  const prk = extract(Buffer.alloc(0), KEM, "eae_prk", shared);
  const secret = expand(prk, KEM, "shared_secret", join(encapsulated, publicKey), 32);
  const none = Buffer.alloc(0);
  const context = join(Buffer.from([0]), extract(none, SUITE, "psk_id_hash", none), extract(none, SUITE, "info_hash", info));
  const scheduled = extract(secret, SUITE, "secret", none);
  const key = expand(scheduled, SUITE, "key", context, 32);
  const nonce = expand(scheduled, SUITE, "base_nonce", context, 12);
  const cipher = crypto.createCipheriv("chacha20-poly1305", key, nonce, { authTagLength: 16 });
  return join(encapsulated, cipher.update(plaintext), cipher.final(), cipher.getAuthTag());
}

// ---------------------------------------------------------------- blind signatures, RFC 9474

function power(base, exponent, modulus) {
  let result = 1n;
  for (base %= modulus; exponent; exponent >>= 1n, base = (base * base) % modulus)
    if (exponent & 1n) result = (result * base) % modulus;
  return result;
}

function inverse(number, modulus) {
  let [old, rest, one, other] = [number, modulus, 1n, 0n];
  while (rest) {
    const times = old / rest;
    [old, rest, one, other] = [rest, old - times * rest, other, one - times * other];
  }
  if (old !== 1n) throw new Error("no inverse");
  return ((one % modulus) + modulus) % modulus;
}

// EMSA-PSS with SHA-384 and a salt of 48 bytes, for a modulus of 2048 bits (RFC 8017, 9.1.1).
function encodePss(message, salt) {
  const digest = sha384(Buffer.alloc(8), sha384(message), salt);
  const block = join(Buffer.alloc(256 - 48 - 48 - 2), Buffer.from([1]), salt);
  let mask = Buffer.alloc(0);
  for (let counter = 0; mask.length < block.length; counter++) mask = join(mask, sha384(digest, u32(counter)));
  const masked = block.map((byte, at) => byte ^ mask[at]);
  masked[0] &= 0x7f;
  return toBig(join(masked, digest, Buffer.from([0xbc])));
}

function isToken(nonce, signature, modulus) {
  const key = crypto.createPublicKey({
    key: { kty: "RSA", n: modulus.toString("base64url"), e: "AQAB" },
    format: "jwk",
  });
  const padding = crypto.constants.RSA_PKCS1_PSS_PADDING;
  return crypto.verify("sha384", nonce, { key, padding, saltLength: 48 }, signature);
}

class Tokens {
  constructor(key) {
    this.key = key;
    this.modulus = toBig(key.modulus);
    this.parts = Array.from({ length: key.reports }, () => {
      const [nonce, salt] = [crypto.randomBytes(32), crypto.randomBytes(48)];
      const factor = 2n + (toBig(crypto.randomBytes(264)) % (this.modulus - 2n));
      return { nonce, salt, factor };
    });
  }

  request(secret) {
    const blinded = this.parts.map(({ nonce, salt, factor }) =>
      fromBig((encodePss(nonce, salt) * power(factor, 65537n, this.modulus)) % this.modulus, 256),
    );
    const own = publicOf("ed25519", secret);
    const { campaign, first_round: first } = this.key;
    const signed = join("rase/2 token request", Buffer.from([0]), encode([own, campaign, first, sha256(...blinded)]));
    return [own, campaign, first, blinded, sign(secret, signed)];
  }

  open(signatures) {
    const tokens = this.parts.map(({ nonce, factor }, at) => {
      const signature = fromBig((toBig(signatures[at]) * inverse(factor, this.modulus)) % this.modulus, 256);
      if (!isToken(nonce, signature, this.key.modulus)) throw new Error("the registrar signed something else");
      return join(nonce, signature);
    });
    // Not in the order in which they were signed.
    return tokens.sort(Buffer.compare);
  }
}

// ---------------------------------------------------------------- the law, in whole numbers

const WORD = 1n << 64n;
const words = { next: () => toBig(crypto.randomBytes(8)) };

// Where a reading lies: the grid point at or below it, and the share of 2^64 towards the next.
export function spot(reading, { low, high, steps, categories }) {
  if (categories) return [categories.indexOf(reading), 0n];
  const exact = Math.min(Math.max((reading - low) / ((high - low) / steps), 0), steps);
  const index = Math.floor(exact);
  return [index, BigInt(Math.trunc((exact - index) * 2 ** 63)) << 1n];
}

export function draw(law, index, share, source = words) {
  const word = source.next();
  if (law.kind === "window-and-bit") return drawWindowOrBit(law, index, share, word);
  if (law.kind === "rows") return drawRow(law, index, share, word);
  if (law.kind === "clamped-noise") return drawClamped(law, index, share, word);
  if (law.kind === "sets") return drawSet(law, index, word);
  throw new Error(`unknown kind of law ${law.kind}`);
}

function drawWindowOrBit(law, index, share, word) {
  const { steps, half, margin } = law;
  const [near, far, flip, slope] = [law.near, law.far, law.flip, law.slope].map(BigInt);
  const width = 2 * half + 1;
  const inside = near * BigInt(width);
  const total = inside + far * BigInt(steps);
  if (word >= total) {
    const high = flip + slope * BigInt(index) + ((share * slope) >> 64n);
    return word - total < high ? steps + margin : -margin;
  }
  if (word < inside) {
    const rest = word % near;
    let place = Number(word / near);
    if (place === 0 && rest < (share * (near - far)) >> 64n) place = width;
    return index + place - half;
  }
  const place = Number((word - inside) / far);
  return (place < index ? place : place + width) - half;
}

function drawRow(law, index, share, word) {
  const [parts, steps] = [BigInt(law.parts), BigInt(law.steps)];
  const position = ((BigInt(index) << 64n) + share) * parts;
  const below = Number(position / (steps << 64n));
  const mixed = (position % (steps << 64n)) / steps;
  const [under, over] = [law.rows[below], law.rows[Math.min(below + 1, law.parts)]];
  let [low, high] = [0n, 0n];
  for (let at = 0; at < under.length; at++) {
    low += BigInt(under[at]);
    high += BigInt(over[at]);
    const sum = high < low ? low - ((mixed * (low - high)) >> 64n) : low + ((mixed * (high - low)) >> 64n);
    if (word < sum) return law.places[at];
  }
  throw new Error("rows must add up to 2^64");
}

function drawClamped(law, index, share, word) {
  const sums = law.sums.map(BigInt);
  let cell = sums.findIndex((sum) => word < sum);
  if (cell < 0) cell = sums.length;
  const start = cell ? sums[cell - 1] : 0n;
  const end = cell < sums.length ? sums[cell] : WORD;
  const up = word - start < (share * (end - start)) >> 64n ? 1 : 0;
  return Math.min(Math.max(index + up + cell - law.steps, 0), law.steps);
}

function drawSet(law, index, word) {
  const [near, far] = [BigInt(law.near), BigInt(law.far)];
  const inside = near * BigInt(law.near_sets.length);
  if (word < inside) return (law.near_sets[Number(word / near)] + index) % law.v;
  const away = Array.from({ length: law.v }, (_, set) => set).filter((set) => !law.near_sets.includes(set));
  return (away[Number((word - inside) / far)] + index) % law.v;
}

// ---------------------------------------------------------------- the report

const ZERO = Buffer.from([0]);

export function reportOf({ round, place, token, campaign, keyset, shuffler, fusion }) {
  const content = Buffer.alloc(320);
  content.writeUInt8(2, 0);
  content.writeUInt8(0, 1);
  content.writeBigInt64BE(BigInt(place), 2);
  content.writeUInt32BE(round, 10);
  token.copy(content, 32);
  const inner = seal(fusion.public_key, join("rase/2 inner", campaign.hash, u32(round)), content);
  const header = join(Buffer.from([2, shuffler.id]), campaign.hash.subarray(0, 8), u32(round), u32(keyset));
  const mark = Buffer.from([0, 0, fusion.id]);
  return join(header, seal(shuffler.public_key, join("rase/2 outer", campaign.hash, header), join(mark, inner)));
}

export function authorizationOf(report, credential) {
  const [handle, secret] = credential.split(".");
  const key = sha256("rase/1 credential", ZERO, secret);
  const tag = hmac(key, "rase/2 report", ZERO, handle, ZERO, report).subarray(0, 16);
  return `RASE ${handle}.${tag.toString("hex")}`;
}

// ---------------------------------------------------------------- the conversation

async function ask(url, { method = "GET", body, type, authorization } = {}) {
  const headers = {};
  if (type) headers["Content-Type"] = type;
  if (authorization) headers.Authorization = authorization;
  const answer = await fetch(url, { method, body, headers });
  const bytes = Buffer.from(await answer.arrayBuffer());
  return { status: answer.status, bytes };
}

function expect(answer, ...allowed) {
  if (!allowed.includes(answer.status)) throw new Error(`${answer.status}: ${answer.bytes.toString("utf8")}`);
  return answer.bytes;
}

async function enrol(kit, token, approval, secret) {
  const key = publicOf("ed25519", secret);
  const certified = await ask(`${kit.registrar}/v1/certificates`, {
    method: "POST",
    type: "application/json",
    body: JSON.stringify({
      approval,
      device_key: key.toString("base64url"),
      proof: sign(secret, join("rase/2 possession", ZERO, key)).toString("base64url"),
    }),
  });
  const { certificate } = JSON.parse(expect(certified, 200, 201));
  const [name, rest] = token.split(".");
  const tokenKey = sha256("rase/1 credential", ZERO, rest);
  const proof = hmac(tokenKey, "rase/2 enrolment", ZERO, name, ZERO, key).toString("base64url");
  const enrolled = await ask(`${kit.shuffler}/v1/enrolments`, {
    method: "POST",
    type: "application/json",
    body: JSON.stringify({ token: name, device_key: key.toString("base64url"), proof, certificate }),
  });
  const answer = JSON.parse(expect(enrolled, 200, 201));
  const serverKey = Buffer.from(answer.server_key, "base64url");
  // The Ed25519 secret on the curve of X25519: the first half of its SHA-512.
  const scalar = crypto.createHash("sha512").update(secret).digest().subarray(0, 32);
  const shared = x25519(scalar, serverKey);
  const extracted = hmac(tokenKey, shared);
  const own = hmac(extracted, "rase/2 device secret", ZERO, key, serverKey, Buffer.from([1])).toString("base64url");
  const confirmation = hmac(sha256("rase/1 credential", ZERO, own), "rase/2 enrolled", ZERO, answer.device, ZERO, serverKey);
  if (confirmation.toString("base64url") !== answer.proof) throw new Error("whoever answered does not know the token");
  return `${answer.device}.${own}`;
}

function verified(bytes, name, keys) {
  const [found, body, ...signatures] = decode(bytes);
  if (found !== name) throw new Error(`expected ${name}, got ${found}`);
  keys.forEach(([signer, key], at) => {
    if (!isSigned(key, join(`${name} by ${signer}`, ZERO, body), signatures[at])) throw new Error(`${name}: bad signature`);
  });
  return body;
}

async function termsOf(kit) {
  const both = [
    ["fusion", Buffer.from(kit.fusion_key, "hex")],
    ["shuffler", Buffer.from(kit.shuffler_key, "hex")],
  ];
  const versions = decode(expect(await ask(`${kit.shuffler}/v1/campaigns/${kit.campaign}/versions`), 200));
  const body = verified(versions[1].at(-1), "rase/1 campaign", both);
  const keyset = decode(verified(expect(await ask(`${kit.shuffler}/v1/keyset`), 200), "rase/1 keyset", both));
  return { campaign: { ...decode(body), hash: sha256(body) }, keyset };
}

// The key of a role that is active at the end of the round; the youngest of several.
function keyAt(keyset, role, second) {
  const fitting = keyset.configs.filter(
    (one) => one.role === role && one.not_before_s <= second && second < one.not_after_s,
  );
  fitting.sort((a, b) => b.not_before_s - a.not_before_s || a.id - b.id);
  if (!fitting.length) throw new Error(`no key of the ${role}`);
  return fitting[0];
}

async function tokenKeys(kit, campaign) {
  const document = decode(expect(await ask(`${kit.registrar}/v1/token-keys`), 200));
  const signers = [
    ["registrar", Buffer.from(kit.registrar_key, "hex")],
    ["shuffler", Buffer.from(kit.shuffler_key, "hex")],
  ];
  return document[1].map((one) => decode(verified(one, "rase/2 token key", signers))).filter((key) => key.campaign === campaign);
}

async function fetchTokens(kit, key, secret) {
  const batch = new Tokens(key);
  const answer = await ask(`${kit.registrar}/v1/tokens`, {
    method: "POST",
    type: "application/cbor",
    body: encode([batch.request(secret)]),
  });
  const [[status, found]] = decode(expect(answer, 200));
  if (status !== 200) throw new Error(`tokens: ${status} ${found}`);
  return batch.open(found);
}

const now = () => Date.now() / 1000;
const until = (second) => new Promise((done) => setTimeout(done, Math.max(0, 1000 * (second - now()))));

async function run(kit, reading, rounds) {
  const { campaign, keyset } = await termsOf(kit);
  const devices = [];
  for (const [at, token] of kit.tokens.entries()) {
    const secret = crypto.randomBytes(32);
    devices.push({ secret, credential: await enrol(kit, token, kit.approvals[at], secret), tokens: new Map() });
  }
  let round = Math.max(campaign.not_before, Math.floor(now() / campaign.round_s));
  for (let sent = 0; sent < rounds; round++) {
    const key = (await tokenKeys(kit, campaign.id)).find((one) => one.first_round <= round && round <= one.last_round);
    if (!key) throw new Error(`round ${round} has no token window`);
    for (const device of devices) {
      const isOpen = now() < key.issue_until_s;
      if (!device.tokens.has(key.first_round) && isOpen)
        device.tokens.set(key.first_round, await fetchTokens(kit, key, device.secret));
    }
    if (!devices.every((device) => device.tokens.has(key.first_round))) continue;
    const end = (round + 1) * campaign.round_s;
    await until(end + 0.2);
    for (const device of devices) {
      const place = draw(kit.law.law, ...spot(reading, kit.law));
      const report = reportOf({
        round,
        place,
        token: device.tokens.get(key.first_round).pop(),
        campaign,
        keyset: keyset.version,
        shuffler: keyAt(keyset, "shuffler", end),
        fusion: keyAt(keyset, "fusion", end),
      });
      const authorization = authorizationOf(report, device.credential);
      const options = { method: "POST", type: "application/rase-report", body: report, authorization };
      expect(await ask(`${kit.shuffler}/v1/reports`, options), 200, 201);
    }
    sent++;
    console.log(`round ${round}: ${devices.length} reports`);
  }
}

// node device.mjs draws LAW READING COUNT FILE: places to compare with `rase conformance check`.
function writeDraws(law, reading, count, file) {
  const rows = Array.from({ length: count }, () => `${reading},${draw(law.law, ...spot(reading, law))}`);
  writeFileSync(file, ["reading,place", ...rows, ""].join("\n"));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [first, ...rest] = process.argv.slice(2);
  const read = (law, text) => (law.categories ? text : Number(text));
  if (first === "draws") {
    const law = JSON.parse(readFileSync(rest[0], "utf8"));
    writeDraws(law, read(law, rest[1]), Number(rest[2]), rest[3]);
  } else {
    const kit = JSON.parse(readFileSync(first, "utf8"));
    await run(kit, read(kit.law, rest[0]), Number(rest[1] ?? 2));
  }
}
