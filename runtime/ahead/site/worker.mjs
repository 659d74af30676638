// Trains in a worker, so that the page stays at hand. Rows come from rows.safetensors beside it, or
// from a file that the page sends, and are made up if there are none.
import { columnsOf } from "./columns.mjs";
import { open } from "./prograd.mjs";

const CHUNK_MS = 30; // time of steps between two messages
let net, about, rows, order = [], shuffled = [], at = 0, epoch = 0, running = false;

const fetched = async (path) => (await fetch(path)).arrayBuffer();

function madeUp(feed) { // numbers below 1, or 0 and 1
  const values = Array.from({ length: feed.elements }, () => Math.random());
  if (feed.array === "BigInt64Array") return BigInt64Array.from(values, (x) => BigInt(Math.round(x)));
  return globalThis[feed.array].from(values, (x) => (feed.array.startsWith("Float") ? x : Math.round(x)));
}

function feedsOf(step, first) { // arrays for a step, of the rows at positions from `first` on
  const feeds = {};
  for (const feed of step.feeds) {
    const column = rows?.[feed.column];
    if (!column) feeds[feed.name] = madeUp(feed);
    else if (!feed.by_row) feeds[feed.name] = column.array;
    else {
      const size = feed.elements / step.rows, array = new globalThis[feed.array](feed.elements);
      for (let i = 0; i < step.rows; i++) {
        const position = (first + i) % order.length, row = order[step.trains ? shuffled[position] : position];
        array.set(column.array.subarray(row * size, (row + 1) * size), i * size);
      }
      feeds[feed.name] = array;
    }
  }
  return feeds;
}

function useRows(columns) {
  rows = columns;
  const training = about.steps.find((step) => step.trains) ?? about.steps[0];
  const by = training.feeds.find((feed) => feed.by_row && rows[feed.column]);
  const split = about.split && rows[about.split]?.array;
  order = split ? Array.from(split, Number) : Array.from({ length: by ? rows[by.column].shape[0] : 1 }, (_, i) => i);
}

function train() {
  if (!running) return;
  const step = about.steps.find((one) => one.trains), until = performance.now() + CHUNK_MS, told = [];
  while (performance.now() < until) {
    if (at === 0) {
      net.beginEpoch();
      shuffled = net.order(order.length, epoch++);
    }
    const found = net[step.method](feedsOf(step, at));
    at += step.rows;
    if (at + step.rows > order.length) at = 0; // rows that do not fill a step are left out
    told.push(Number(found.loss ?? Object.values(found)[0]));
  }
  postMessage({ losses: told });
  setTimeout(train);
}

const answers = {
  async open() {
    about = await (await fetch("./about.json")).json();
    net = await open(about.name, await fetch(`./${about.name}.wasm`), await fetched(`./${about.name}.states.safetensors`));
    net.set("total_steps", BigInt64Array.of(10000n));
    const file = await fetch("./rows.safetensors");
    if (file.ok) useRows(columnsOf(await file.arrayBuffer()));
    else order = [0];
    postMessage({ ready: about.name, has_rows: file.ok });
  },
  rows({ file }) { useRows(columnsOf(file)); },
  start() { running = true; train(); },
  stop() { running = false; },
  predict() {
    const step = about.steps.find((one) => !one.trains && one.entry === "predict") ?? about.steps.at(-1);
    const found = net[step.method](feedsOf(step, 0));
    postMessage({ predicted: Object.entries(found).map(([name, value]) =>
      `${name}: ${typeof value === "object" ? Array.from(value.slice(0, 10)).join(", ") : value}`) });
  },
  async hash() { postMessage({ hash: await net.stateSha256() }); },
  save() { postMessage({ saved: net.save() }); },
};

onmessage = async ({ data }) => {
  try {
    await answers[data.ask](data);
  } catch (error) {
    running = false;
    postMessage({ failed: error.message });
  }
};
