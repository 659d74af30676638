// Programs of prograd in WebAssembly: instances, steps and files of states, as prograd.c has them.
//
//     import { open } from "./prograd.mjs";
//     const net = await open("NAME", await fetch("NAME.wasm"), await (await fetch("NAME.states.safetensors")).arrayBuffer());
//     const { loss } = net.train({ image, label });

import { run } from "./run.mjs";

const MEMBERS = ["sizes", "states", "entries", "places", "checks", "restored", "run", "numbers", "words", "phases",
  "actions", "chunks", "text", "header", "constants", "groups"];
const COLUMNS = { // numbers of 64 bits, and after the bar those of 32 bits
  sizes: "bytes board board_words team versions found states entries restored threads header_bytes length by_name name sha256 cpu working|",
  states: "bytes at|name dtype word rank shape kept item stays finite",
  entries: "rows words_at checks_at|name trains reads_length words word_count chunks phases phase_count packing " +
    "packing_end actions feeds feed_count fetches fetch_count copies copy_count checks check_count method length",
  places: "at bytes item to width|name dtype base rank shape strides early widened kind by_row over watched described",
  checks: "size|group why feed before between after",
  run: "train train_count evaluate evaluate_count every epochs shuffle window remainder best_metric best_of_evaluation " +
    "higher restores best_checkpoints patience_setting patience min_delta_setting min_delta plateaus plateau_count watches " +
    "watch_count stop_watch train_loss evaluate_loss most_feeds most_fetches unsupported about about_end judged_by about_bytes|",
  restored: "at bytes constant|",
};
const ARRAYS = { bool: Uint8Array, uint8: Uint8Array, int32: Int32Array, int64: BigInt64Array, float32: Float32Array,
  float64: Float64Array, float16: Uint16Array, bfloat16: Uint16Array };
const BOARD = { alarm: 16, functions: 17, words: 32, actions: 33, paused: 34 };

/** Return an instance: `module` is a response of fetch, or bytes; `states` is the file NAME.states.safetensors. */
export async function open(name, module, states) { return instance(name, module, states, "program"); }

async function instance(name, module, states, program) {
  const bytes = module instanceof Response ? await module.arrayBuffer() : module;
  const made = await WebAssembly.instantiate(bytes, {});
  return new Net(name, made.instance.exports, states, program);
}

/** Four words of the stream of random bits that orders rows: Philox4x32-10, see docs/format.md. */
function randomWords(seed, step, block) {
  const mask = 0xFFFFFFFFn;
  let [c0, c1, c2, c3] = [block, mask, step & mask, (step >> 32n) & mask], low = seed & mask, high = (seed >> 32n) & mask;
  for (let i = 0; i < 10; i++) {
    const a = c0 * 0xD2511F53n, b = c2 * 0xCD9E8D57n;
    [c0, c1, c2, c3] = [(b >> 32n) ^ c1 ^ low, b & mask, (a >> 32n) ^ c3 ^ high, a & mask];
    low = (low + 0x9E3779B9n) & mask;
    high = (high + 0xBB67AE85n) & mask;
  }
  return [c0, c1, c2, c3];
}

class Net {
  constructor(name, exports, states, program) {
    this.name = name;
    this.drive = exports[`${name}.drive`];
    this.memory = exports.memory;
    const at = Number(exports[`${name}.${program}`].value);
    const pointers = new Uint32Array(this.memory.buffer, at, MEMBERS.length);
    this.at = Object.fromEntries(MEMBERS.map((member, i) => [member, pointers[i]]));
    this.sizes = this.rows("sizes", 0, 1)[0];
    this.start = Math.ceil(this.memory.buffer.byteLength / 64) * 64;
    this.memory.grow(Math.ceil(this.sizes.bytes / 65536) + 1);
    this.states = new Map(this.rows("states", 0, this.sizes.states).map((state) => [this.text(state.name), state]));
    this.entries = this.rows("entries", 0, this.sizes.entries);
    this.changes = 1n;
    this.entries.forEach((entry, number) => {
      this.bind(entry);
      this[this.text(entry.method)] = (feeds = {}) => this.step(number, feeds);
    });
    this.beginEpoch();
    this.beginEvaluation();
    if (states) this.load(states);
  }

  /** Draw the initial values of another seed: `module` is NAME.initialise.wasm. Totals, counters and slots begin anew. */
  async initialise(seed, module) {
    const other = await instance(this.name, module, undefined, "initialise.program");
    other.set("seed", BigInt64Array.of(BigInt(seed)));
    other.step(0, {});
    this.set("seed", other.state("seed"));
    for (const [name, state] of this.states) if (!state.stays) this.bytes(state).set(other.bytes(state));
    this.beginEpoch();
    this.beginEvaluation();
  }

  /** Train on rows in memory as `runtime execute` does, see run.mjs. */
  run(columns, options) { return run(this, columns, options); }

  declared(column) { // a number of the declared run
    const at = COLUMNS.run.split("|")[0].split(" ").indexOf(column);
    return new DataView(this.memory.buffer).getFloat64(this.at.run + 8 * at, true);
  }

  rows(table, first, count) { // as objects of numbers
    const [wide, narrow] = COLUMNS[table].split("|").map((names) => names.split(" ").filter(Boolean));
    const view = new DataView(this.memory.buffer), size = 8 * Math.ceil((2 * wide.length + narrow.length) / 2);
    return Array.from({ length: count }, (_, i) => {
      const at = this.at[table] + size * (first + i);
      return Object.fromEntries([...wide.map((name, j) => [name, Number(view.getBigInt64(at + 8 * j, true))]),
        ...narrow.map((name, j) => [name, view.getInt32(at + 8 * wide.length + 4 * j, true)])]);
    });
  }

  text(at) {
    const bytes = new Uint8Array(this.memory.buffer, this.at.text + at);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }

  listed(at, count) { return Array.from(new BigInt64Array(this.memory.buffer, this.at.numbers + 8 * at, count), Number); }

  words(at, count) { return new BigInt64Array(this.memory.buffer, this.start + at, count); }

  place(base, at) { return (base === 2 ? this.at.constants : this.start) + at; }

  bind(entry) { // fill its table with addresses, see bind() in prograd.c
    const bytes = new Uint8Array(this.memory.buffer, this.at.words + entry.words), words = this.words(entry.words_at, entry.word_count);
    for (let i = 0, at = 0; i < words.length; i++) {
      const base = bytes[at] & 3;
      let number = BigInt(bytes[at] >> 2 & 31);
      for (let shift = 5n; bytes[at++] & 128; shift += 7n) number |= BigInt(bytes[at] & 127) << shift;
      number = (number >> 1n) ^ -(number & 1n);
      words[i] = base === 0 ? number : BigInt(this.place(base, Number(number) * (base === 3 ? 64 : 1)));
    }
  }

  drivePhases(entry, first, last) {
    const board = this.words(this.sizes.board, this.sizes.board_words);
    board[BOARD.alarm] = BigInt(this.start + entry.checks_at);
    board[BOARD.words] = BigInt(this.start + entry.words_at);
    board[BOARD.actions] = BigInt(this.at.actions + 24 * entry.actions);
    board[BOARD.functions] = BigInt(this.at.groups);
    board[BOARD.paused] = -1n;
    this.drive(this.start + this.sizes.board, this.at.phases + 8 * entry.phases, this.at.chunks + 20 * entry.chunks,
      BigInt(first), BigInt(last));
  }

  step(number, feeds) {
    const entry = this.entries[number];
    if (entry.reads_length && this.words(this.sizes.length, 1)[0] < 1n)
      throw new Error(`${this.text(entry.name)} reads total_steps, the steps of the whole run; set it before the first`);
    for (const feed of this.rows("places", entry.feeds, entry.feed_count)) {
      const name = this.text(feed.name), given = feeds[name], type = ARRAYS[this.text(feed.dtype)];
      if (!(given instanceof type) || given.byteLength !== feed.bytes)
        throw new Error(`${name} is a ${type.name} of ${feed.bytes / type.BYTES_PER_ELEMENT} elements`);
      if (feed.widened && given.some((byte) => byte > 1))
        throw new Error(`${name} has a byte that is neither 0 nor 1, and its elements are bool`);
      new type(this.memory.buffer, this.start + feed.at, given.length).set(given);
    }
    const fetches = this.rows("places", entry.fetches, entry.fetch_count);
    const found = Object.fromEntries(fetches.filter((one) => one.early).map((one) => [this.text(one.name), this.value(one)]));
    const packed = this.words(this.sizes.versions + 8 * number, 1);
    if (entry.packing < entry.packing_end && packed[0] !== this.changes) {
      this.drivePhases(entry, entry.packing, entry.packing_end);
      packed[0] = this.changes;
    }
    this.drivePhases(entry, 0, entry.phase_count);
    this.changes += BigInt(entry.trains);
    if (this.words(entry.checks_at, 1)[0]) this.refuse(entry, feeds);
    for (const copy of this.rows("places", entry.copies, entry.copy_count))
      this.gather(copy, new Uint8Array(this.memory.buffer, this.start + copy.to, copy.bytes));
    for (const one of fetches) if (!one.early) found[this.text(one.name)] = this.value(one);
    return found;
  }

  refuse(entry, feeds) {
    const checks = this.rows("checks", entry.checks, entry.check_count);
    const failed = checks.find((check) => this.words(entry.checks_at + 8 * (1 + check.group), 1)[0]);
    for (const check of [{ group: -1 }, ...checks]) this.words(entry.checks_at + 8 * (1 + check.group), 1)[0] = 0n;
    throw new Error(failed ? this.sentence(entry, failed, feeds) : "an op refuses a number");
  }

  sentence(entry, check, feeds) { // with the number and its row, if a feed has it
    const feed = check.feed < 0 ? undefined : this.rows("places", entry.feeds + check.feed, 1)[0];
    const given = feed ? Array.from(feeds[this.text(feed.name)], Number) : [];
    const least = given.reduce((a, b) => Math.min(a, b), 0), most = given.reduce((a, b) => Math.max(a, b), 0);
    const wrong = least < 0 ? least : most;
    if (!feed || (wrong >= 0 && wrong < check.size)) return this.text(check.why);
    const row = Math.floor(given.indexOf(wrong) / (given.length / entry.rows));
    return `${this.text(check.before)}${wrong}${this.text(check.between)}${row}${this.text(check.after)}`;
  }

  gather(place, to) { // elements with strides to bytes without gaps
    const shape = this.listed(place.shape, place.rank), strides = this.listed(place.strides, place.rank);
    const from = new Uint8Array(this.memory.buffer);
    let at = 0;
    const copy = (source, axis) => {
      if (axis === place.rank) {
        to.set(from.subarray(source, source + place.item), at);
        at += place.item;
      } else for (let i = 0; i < shape[axis]; i++) copy(source + i * strides[axis], axis + 1);
    };
    copy(this.place(place.base, place.at), 0);
  }

  value(place) { // a number, or an array
    const type = ARRAYS[this.text(place.dtype)], bytes = new Uint8Array(place.bytes);
    this.gather(place, bytes);
    let array = new type(bytes.buffer);
    if (place.widened) array = new Float32Array(Uint32Array.from(array, (half) => half << 16).buffer);
    return array.length === 1 ? array[0] : array;
  }

  restore(first) {
    for (const total of this.rows("restored", first, this.sizes.restored))
      new Uint8Array(this.memory.buffer).copyWithin(this.start + total.at, this.at.constants + total.constant,
        this.at.constants + total.constant + total.bytes);
  }

  /** Set the totals of metrics of training to their initial values. */
  beginEpoch() { this.restore(0); }

  /** Set those of the other entries to theirs. */
  beginEvaluation() { this.restore(this.sizes.restored); }

  /** Return the positions of rows in the order of an epoch, from 0 on, as `runtime execute` shuffles them. */
  order(count, epoch) {
    const positions = Array.from({ length: count }, (_, i) => i), seed = this.state("seed")[0];
    if (!this.rows("run", 0, 1)[0].shuffle) return positions;
    const keys = new BigUint64Array(count);
    for (let block = 0; 2 * block < count; block++) {
      const [a, b, c, d] = randomWords(seed, BigInt(epoch), BigInt(block));
      keys[2 * block] = (a << 32n) | b;
      if (2 * block + 1 < count) keys[2 * block + 1] = (c << 32n) | d;
    }
    return positions.sort((one, other) => (keys[one] < keys[other] ? -1 : keys[one] > keys[other] ? 1 : one - other));
  }

  known(name) {
    const state = this.states.get(name);
    if (!state) throw new Error(`${name} is no state of the program`);
    return state;
  }

  bytes(state) { return new Uint8Array(this.memory.buffer, this.start + state.at, state.bytes); }

  /** Return a copy of a state as a typed array. */
  state(name) {
    const state = this.known(name);
    return new ARRAYS[this.text(state.dtype)](this.bytes(state).slice().buffer);
  }

  faults() { // states with NaN, and parameters with Inf, each with that word
    const found = [];
    for (const [name, state] of this.states) {
      if (!state.finite) continue;
      const bits = new (state.item === 8 ? BigUint64Array : state.item === 4 ? Uint32Array : Uint16Array)(this.memory.buffer,
        this.start + state.at, state.bytes / state.item);
      const [sign, exponent] = state.item === 8 ? [(1n << 63n) - 1n, 0x7FFn << 52n] : state.item === 4 ? [0x7FFFFFFF, 0x7F800000]
        : [0x7FFF, this.text(state.word) === "F16" ? 0x7C00 : 0x7F80];
      let most = bits[0];
      for (const each of bits) if ((each & sign) > (most & sign)) most = each;
      if ((most & sign) > exponent) found.push([name, "NaN"]);
      else if ((most & sign) === exponent && state.finite === 2) found.push([name, "Inf"]);
    }
    return found;
  }

  /** Set a state by a typed array. */
  set(name, array) {
    const state = this.known(name);
    if (array.byteLength !== state.bytes) throw new Error(`${name} has another number of bytes`);
    this.bytes(state).set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
    this.changes += 1n;
  }

  /** Read states from the bytes of a file; an error leaves them as they were. */
  load(file) {
    let header, end;
    try {
      end = 8 + Number(new DataView(file).getBigUint64(0, true));
      header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, end - 8)));
    } catch {
      throw new Error("the file is cut short, or no file of tensors");
    }
    const said = header.__metadata__ ?? {}, sha256 = said.program_sha256 ?? JSON.parse(said.prograd ?? "{}").program_sha256;
    if (sha256 && sha256 !== this.text(this.sizes.sha256)) throw new Error("the file has states of another program");
    const found = [];
    for (const [name, state] of this.states) {
      const tensor = header[name];
      if (!tensor && state.kept) continue;
      if (!tensor) throw new Error(`${name} is not in the file`);
      const [from, to] = tensor.data_offsets;
      if (tensor.dtype !== this.text(state.word) || String(tensor.shape) !== String(this.listed(state.shape, state.rank)) ||
          to - from !== state.bytes) throw new Error(`${name} has another type or shape in the file than in the program`);
      if (end + to > file.byteLength) throw new Error("the file is cut short, or no file of tensors");
      found.push([state, new Uint8Array(file, end + from, state.bytes)]);
    }
    for (const [state, bytes] of found) this.bytes(state).set(bytes);
    this.changes += 1n;
  }

  /** Return the bytes of a file with all states, which Python's --load takes. */
  save() {
    const header = new Uint8Array(this.memory.buffer, this.at.header, this.sizes.header_bytes);
    const parts = [header, ...[...this.states.values()].map((state) => this.bytes(state))];
    const file = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    parts.reduce((at, part) => (file.set(part, at), at + part.length), 0);
    return file;
  }

  /** Return the hash of all states, as `runtime execute` prints it. */
  async stateSha256() {
    const states = [...this.states.values()], parts = [];
    const word = (number) => parts.push(new Uint8Array(BigInt64Array.of(BigInt(number)).buffer));
    const text = (at) => { const bytes = new TextEncoder().encode(this.text(at)); word(bytes.length); parts.push(bytes); };
    word(states.length);
    for (const number of this.listed(this.sizes.by_name, states.length)) {
      const state = states[number];
      text(state.name);
      text(state.dtype);
      word(state.rank);
      this.listed(state.shape, state.rank).forEach(word);
      word(state.bytes);
      parts.push(this.bytes(state));
    }
    const digest = await crypto.subtle.digest("SHA-256", await new Blob(parts).arrayBuffer());
    return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
  }
}
