// Whole runs of an instance, as prograd_run() makes them and `runtime execute` does.

const [LAST, MEAN, TABLE] = [0, 1, 3]; // ways to combine a fetch over steps; sums are the other one
const [AS_STEPS_ALLOW, DROP, PARTIAL] = [0, 1, 3]; // what becomes of rows that fill no step

/** Train on rows of `columns`, typed arrays by feed, and return the last metrics: epochs in the order that follows from
 * the seed, with the evaluations, the best states and the early end that the program declares. `train` and `evaluated`
 * are row numbers, by default all and none; 0 epochs are the program's; `said` is called with each report. */
export function run(net, columns, { train, evaluated, epochs = 0, said = () => {} } = {}) {
  const table = net.rows("run", 0, 1)[0], entries = net.entries, batch = entries[table.train].rows;
  if (table.unsupported >= 0) throw new Error(net.text(table.unsupported));
  if (table.plateau_count || table.window || entries.some((entry) => entry.length))
    throw new Error("a run with plateaus, a window of rows or rows of unequal length is none for browsers; make its steps one by one");
  const feeds = net.rows("places", entries[table.train].feeds, entries[table.train].feed_count);
  const name = net.text(feeds.find((feed) => feed.by_row).name), one = feeds.find((feed) => feed.by_row);
  if (!columns[name]) throw new Error(`${name} is not among the columns`);
  const all = columns[name].length * columns[name].BYTES_PER_ELEMENT / (one.bytes / batch);
  const rows = Array.from(train ?? { length: all }, (row, i) => Number(train ? row : i)), left = rows.length % batch;
  const own = (first, count) => entries.slice(first, first + count).map((entry, i) => ({ ...entry, number: first + i }));
  const rest = own(table.train, table.train_count).find((entry) => entry.rows === left);
  const ends = rest && [AS_STEPS_ALLOW, PARTIAL].includes(table.remainder);
  if ((!ends && rows.length < batch) || (left && !ends && table.remainder !== DROP))
    throw new Error("the rows to train on do not fill the steps of an epoch");
  const each = Math.floor(rows.length / batch) + (ends ? 1 : 0), total = (epochs || table.epochs) * each;
  const declared = (setting, value) => (setting < 0 ? value : net.state([...net.states.keys()][setting])[0]);
  const [patience, delta] = ["patience", "min_delta"].map((key) => declared(table[`${key}_setting`], net.declared(key)));
  const best = { stale: 0 }, infinite = new Set(net.faults().filter(([, fault]) => fault === "Inf").map(([name]) => name));
  const refused = (why) => { // after a number that is none, with the best states if there are some
    if (best.states) net.load(best.states.buffer);
    return new Error(`${why}; a lower learning rate or clipping may help`);
  };
  let made = 0; // steps
  net.set("total_steps", BigInt64Array.of(BigInt(total)));

  const pass = (steps) => { // steps of entries with rows; the metrics
    const sums = {}, count = steps.reduce((sum, [, numbers]) => sum + numbers.length, 0);
    for (const [entry, numbers] of steps) {
      const found = net.step(entry.number, filled(net, entry, columns, numbers));
      made += entry.trains;
      for (const fetch of net.rows("places", entry.fetches, entry.fetch_count)) {
        const key = net.text(fetch.name), value = Number(found[key]);
        if (fetch.over === TABLE) continue;
        if (fetch.watched && entry.trains && !Number.isFinite(value)) throw refused(`step ${made}: ${key} is ${value}`.replace("NaN", "nan").replace("Infinity", "inf"));
        sums[key] = fetch.over === LAST ? value : (sums[key] ?? 0) + (fetch.over === MEAN ? value * entry.rows : value);
        if (entry === steps.at(-1)[0] && numbers === steps.at(-1)[1] && fetch.over === MEAN) sums[key] /= count;
      }
    }
    return sums;
  };
  const dealt = (choices, numbers) => { // the largest steps first
    const steps = [];
    let at = 0;
    for (const entry of choices) for (; at + entry.rows <= numbers.length; at += entry.rows) steps.push([entry, numbers.slice(at, at + entry.rows)]);
    if (at < numbers.length) throw new Error(`${numbers.length - at} of ${numbers.length} rows are left, which no step takes`);
    return steps;
  };
  let metrics, evaluation, epoch = 0;
  for (; epoch < total / each; epoch++) {
    const order = net.order(rows.length, epoch).map((position) => rows[position]).slice(0, ends ? rows.length : rows.length - left);
    net.beginEpoch();
    metrics = pass(dealt([own(table.train, 1)[0], ...(ends ? [rest] : [])], order));
    const fault = net.faults().find(([name, found]) => found === "NaN" || !infinite.has(name));
    if (fault) throw refused(`after step ${made}: the state '${fault[0]}' has ${fault[1]}`);
    const evaluates = evaluated && table.every && ((epoch + 1) % table.every === 0 || epoch + 1 === total / each);
    if (evaluates) {
      net.beginEvaluation();
      evaluation = pass(dealt(own(table.evaluate, table.evaluate_count), Array.from(evaluated, Number)));
    }
    said({ epoch: epoch + 1, metrics, evaluation: evaluates ? evaluation : undefined });
    if (judged(net, table, best, evaluates ? evaluation : undefined, metrics, !!(table.every && evaluated), delta) && 0 < patience && patience <= best.stale) break;
  }
  if (best.states) net.load(best.states.buffer);
  return { metrics, evaluation, epochs: Math.min(epoch + 1, total / each), best: best.value };
}

function filled(net, entry, columns, numbers) { // arrays of a step with these rows
  return Object.fromEntries(net.rows("places", entry.feeds, entry.feed_count).map((feed) => {
    const name = net.text(feed.name), column = columns[name];
    if (!column) throw new Error(`${name} is not among the columns`);
    if (!feed.by_row) return [name, column];
    const size = feed.bytes / column.BYTES_PER_ELEMENT / entry.rows, array = new column.constructor(size * entry.rows);
    numbers.forEach((row, i) => array.set(column.subarray(row * size, (row + 1) * size), i * size));
    return [name, array];
  }));
}

function judged(net, table, best, evaluation, metrics, evaluates, delta) { // keep the best states; true if it was time to
  if (table.best_metric < 0 || (!evaluation && evaluates)) return false;
  const entry = net.entries[table.best_of_evaluation ? table.evaluate : table.train], found = evaluation ?? metrics;
  const loss = evaluation ? table.evaluate_loss : table.train_loss;
  const key = (at, number) => net.text(net.rows("places", at.fetches + number, 1)[0].name);
  let value = (table.best_of_evaluation ? evaluation : metrics)[key(entry, table.best_metric)];
  if (loss >= 0 && !Number.isFinite(found[key(net.entries[evaluation ? table.evaluate : table.train], loss)])) value = NaN;
  const better = (than, by) => !Number.isNaN(value) && (than === undefined || (table.higher ? value > than + by : value < than - by));
  let improved = better(best.value, 0);
  if (improved) {
    best.value = value;
    if (table.restores) best.states = net.save();
  }
  if (delta > 0 && (improved = better(best.watched, delta))) best.watched = value;
  best.stale = improved ? 0 : best.stale + 1;
  return true;
}
