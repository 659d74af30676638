/* Whole runs: epochs over rows in memory, as `runtime execute` makes them; link it only if you call
 * it. The order of rows, the means of metrics, the evaluations, the best states and the early end
 * are those of the runtime, so the hash at the end is the same. */
#include "prograd_tables.h"

#include <math.h>
#include <string.h>

enum { LAST, MEAN, SUM, TABLE }; /* how fetches of several steps are combined; a table is none */
enum { MOST_FETCHES = 64 };

typedef struct {
  double values[MOST_FETCHES]; /* of the scalar fetches of an entry, by their number */
  int64_t rows;
} totals;

typedef struct { /* the room of a run, as its caller gave it */
  unsigned char *feeds[MOST_FETCHES], *fetches[MOST_FETCHES], *best;
  int64_t *order;
  uint64_t *keys;
} room_of;

static int64_t even(int64_t bytes) { return (bytes + 63) & ~(int64_t)63; }

/* Lay out the room from `start` on, or only measure it; return its bytes. */
static int64_t lay_out(const prograd *self, const prograd_rows *train, unsigned char *start, room_of *room) {
  const prograd_program *program = self->program;
  int64_t at = 0, fed = 0, fetched = 0;
  for (int64_t i = 0; i < program->sizes->entries; i++) {
    const prograd_entry *entry = program->entries + i;
    for (int64_t j = 0; j < entry->feed_count; j++) {
      int64_t bytes = program->places[entry->feeds + j].bytes;
      fed = bytes > fed ? bytes : fed;
    }
    for (int64_t j = 0; j < entry->fetch_count; j++) {
      int64_t bytes = 2 * program->places[entry->fetches + j].bytes; /* bfloat16 becomes float */
      fetched = bytes > fetched ? bytes : fetched;
    }
  }
  for (int i = 0; i < MOST_FETCHES; i++) {
    room->feeds[i] = start + at, at += i < program->run->most_feeds ? even(fed) : 0;
    room->fetches[i] = start + at, at += i < program->run->most_fetches ? even(fetched) : 0;
  }
  room->order = (int64_t *)(start + at), at += even(train->count * 8);
  room->keys = (uint64_t *)(start + at), at += even(train->count * 8);
  room->best = start + at;
  for (int64_t i = 0; i < program->sizes->states; i++) at += program->run->best_metric < 0 ? 0 : program->states[i].bytes;
  return at;
}

int64_t prograd_run_bytes(const prograd *self, const prograd_rows *train) {
  room_of room;
  return lay_out(self, train, NULL, &room) + 64;
}

/* Philox4x32-10: four words of a stream of random bits, see docs/format.md. */
static void random_words(uint64_t seed, uint64_t step, uint32_t block, uint32_t c[4]) {
  uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32);
  c[0] = block, c[1] = 0xFFFFFFFFu /* the stream of rows */, c[2] = (uint32_t)step, c[3] = (uint32_t)(step >> 32);
  for (int i = 0; i < 10; i++, low += 0x9E3779B9u, high += 0xBB67AE85u) {
    uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
    c[0] = (uint32_t)(b >> 32) ^ c[1] ^ low;
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c[3] ^ high;
    c[3] = (uint32_t)a;
  }
}

/* True if position a belongs behind b: by the keys, equal ones by the lower number. */
static int is_behind(const room_of *room, int64_t a, int64_t b) {
  uint64_t x = room->keys[room->order[a]], y = room->keys[room->order[b]];
  return x > y || (x == y && room->order[a] > room->order[b]);
}

static void swap(int64_t *one, int64_t *other) {
  int64_t kept = *one;
  *one = *other;
  *other = kept;
}

/* Put the row numbers of an epoch in order, by a heap sort. */
static void put_in_order(const prograd *self, const room_of *room, int64_t count, int64_t epoch) {
  uint64_t seed = (uint64_t) * (const int64_t *)prograd_state(self, "seed", NULL);
  for (int64_t i = 0; i < count; i++) room->order[i] = i;
  if (!self->program->run->shuffle) return;
  for (int64_t i = 0; i < count; i++) {
    uint32_t words[4];
    random_words(seed, (uint64_t)epoch, (uint32_t)(i / 2), words);
    room->keys[i] = (uint64_t)words[2 * (i & 1)] << 32 | words[2 * (i & 1) + 1];
  }
  for (int64_t end = count, start = count / 2; end > 1;) {
    int64_t root = 0;
    if (start > 0) root = --start;
    else swap(room->order, room->order + --end);
    for (int64_t child; (child = 2 * root + 1) < end; root = child) {
      if (child + 1 < end && is_behind(room, child + 1, child)) child++;
      if (!is_behind(room, child, root)) break;
      swap(room->order + root, room->order + child);
    }
  }
}

static double number_of(const prograd_place *fetch, const unsigned char *bytes) {
  float single;
  double wide;
  int64_t whole;
  int32_t half;
  if (fetch->widened || fetch->kind == PROGRAD_FLOAT) return memcpy(&single, bytes, 4), (double)single;
  if (fetch->kind == PROGRAD_DOUBLE) return memcpy(&wide, bytes, 8), wide;
  if (fetch->kind == PROGRAD_INT64) return memcpy(&whole, bytes, 8), (double)whole;
  if (fetch->kind == PROGRAD_INT32) return memcpy(&half, bytes, 4), (double)half;
  return *bytes;
}

/* Make a step with the rows at positions from `first` on, and add its numbers to the totals. */
static int step(prograd *self, int64_t number, const prograd_rows *rows, const int64_t *order,
                int64_t first, const room_of *room, totals *sums) {
  const prograd_program *program = self->program;
  const prograd_entry *entry = program->entries + number;
  const prograd_place *feed = program->places + entry->feeds, *fetch = program->places + entry->fetches;
  for (int64_t i = 0; i < entry->feed_count; i++) {
    int64_t bytes = feed[i].by_row ? feed[i].bytes / entry->rows : feed[i].bytes;
    const unsigned char *column = rows->columns[i];
    for (int64_t j = 0; j < (feed[i].by_row ? entry->rows : 1); j++) {
      int64_t row = order ? order[first + j] : first + j;
      if (rows->numbers) row = rows->numbers[row];
      memcpy(room->feeds[i] + j * bytes, column + (feed[i].by_row ? row : 0) * bytes, (size_t)bytes);
    }
  }
  int error = prograd_step(self, (int)number, (const void *const *)room->feeds, (void *const *)room->fetches);
  if (error) return error;
  sums->rows += entry->rows;
  for (int64_t i = 0; i < entry->fetch_count; i++) {
    double value = fetch[i].over == TABLE ? 0 : number_of(fetch + i, room->fetches[i]);
    if (fetch[i].over == LAST) sums->values[i] = value;
    else sums->values[i] += fetch[i].over == MEAN ? value * (double)entry->rows : value;
    if (entry->trains && fetch[i].watched && !isfinite(value))
      return prograd_fail(self, PROGRAD_NOT_FINITE, prograd_text(self, fetch[i].name),
                          " is NaN or Inf; a lower learning rate or clipping may help");
  }
  return PROGRAD_OK;
}

/* Combine the numbers of an epoch or an evaluation, and tell the caller of them. */
static void close_totals(const prograd *self, int64_t number, totals *sums, prograd_report *report,
                         prograd_said *said, void *context) {
  const prograd_entry *entry = self->program->entries + number;
  const prograd_place *fetch = self->program->places + entry->fetches;
  for (int64_t i = 0; i < entry->fetch_count; i++) {
    if (fetch[i].over == MEAN) sums->values[i] /= (double)sums->rows;
    if (!said || fetch[i].over == TABLE) continue;
    report->metric = prograd_text(self, fetch[i].name);
    report->value = sums->values[i];
    said(report, context);
  }
}

static int evaluate(prograd *self, const prograd_rows *rows, const room_of *room, totals *sums) {
  const prograd_run_table *run = self->program->run;
  int64_t first = 0;
  prograd_begin_evaluation(self);
  memset(sums, 0, sizeof *sums);
  for (int64_t i = run->evaluate; i < run->evaluate + run->evaluate_count; i++) /* the largest first */
    for (int64_t batch = self->program->entries[i].rows; first + batch <= rows->count; first += batch) {
      int error = step(self, i, rows, NULL, first, room, sums);
      if (error) return error;
    }
  if (first < rows->count)
    return prograd_fail(self, PROGRAD_NO_ROWS, "rows to evaluate on are left that no step takes", "");
  return PROGRAD_OK;
}

static void copy_states(prograd *self, unsigned char *best, int is_back) {
  for (int64_t i = 0; i < self->program->sizes->states; best += self->program->states[i++].bytes) {
    unsigned char *here = self->memory + self->program->states[i].at;
    size_t bytes = (size_t)self->program->states[i].bytes;
    if (is_back) memcpy(here, best, bytes);
    else memcpy(best, here, bytes);
  }
  self->changes += is_back;
}

typedef struct { /* the judgement of a run by its metric */
  double best, best_of_stop;
  int64_t stale, has_best, has_stop;
} judge;

static int is_better(const prograd_run_table *run, double value, int64_t has, double best, double delta) {
  if (isnan(value)) return 0;
  return !has || (run->higher ? value > best + delta : value < best - delta);
}

/* Take a value of the metric; keep the states if it is the best. Return 1 if the run is to end. */
static int take(prograd *self, judge *j, double value, unsigned char *best, int *is_best) {
  const prograd_run_table *run = self->program->run;
  double delta;
  memcpy(&delta, &run->min_delta, 8);
  *is_best = is_better(run, value, j->has_best, j->best, 0);
  if (*is_best) {
    j->best = value, j->has_best = 1;
    if (run->restores) copy_states(self, best, 0);
  }
  int improved = *is_best;
  if (delta > 0) {
    improved = is_better(run, value, j->has_stop, j->best_of_stop, delta);
    if (improved) j->best_of_stop = value, j->has_stop = 1;
  }
  j->stale = improved ? 0 : j->stale + 1;
  return run->patience > 0 && run->patience <= j->stale;
}

int prograd_run(prograd *self, const prograd_rows *train, const prograd_rows *evaluated, int64_t epochs,
                void *memory, prograd_said *said, void *context) {
  const prograd_program *program = self->program;
  const prograd_run_table *run = program->run;
  room_of room;
  totals sums, evaluation;
  judge judged = {0};
  prograd_report report = {0};
  lay_out(self, train, (unsigned char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63), &room);
  if (run->unsupported >= 0)
    return prograd_fail(self, PROGRAD_NO_ROWS, prograd_text(self, run->unsupported), ", which prograd_run does not");
  int64_t batch = program->entries[run->train].rows, left = train->count % batch, rest = -1;
  for (int64_t i = run->train; i < run->train + run->train_count; i++)
    if (left && program->entries[i].rows == left && run->remainder != PROGRAD_DROP) rest = i;
  if (train->count < batch || (left && rest < 0 && run->remainder != PROGRAD_DROP))
    return prograd_fail(self, PROGRAD_NO_ROWS, "the rows to train on do not fill the steps of an epoch", "");
  int64_t per_epoch = train->count / batch + (rest >= 0), steps = (epochs ? epochs : run->epochs) * per_epoch;
  int error = prograd_set(self, "total_steps", &steps, sizeof steps), ends = 0;
  for (report.epoch = 1; !error && !ends && report.step < steps; report.epoch++) {
    prograd_begin_epoch(self);
    put_in_order(self, &room, train->count, report.epoch - 1);
    memset(&sums, 0, sizeof sums);
    for (int64_t i = 0; i < per_epoch && !error; i++, report.step++)
      error = step(self, i * batch + batch > train->count ? rest : run->train, train, room.order, i * batch, &room, &sums);
    if (error) break;
    report.is_evaluation = 0;
    close_totals(self, run->train, &sums, &report, said, context);
    int evaluates = run->every && evaluated && (report.epoch % run->every == 0 || report.step == steps);
    if (evaluates) {
      report.is_evaluation = 1;
      if ((error = evaluate(self, evaluated, &room, &evaluation))) break;
      close_totals(self, run->evaluate, &evaluation, &report, said, context);
    } else if (run->every || run->best_metric < 0) continue;
    if (run->best_metric < 0) continue;
    double value = run->best_of_evaluation ? evaluation.values[run->best_metric] : sums.values[run->best_metric];
    const totals *sound = evaluates ? &evaluation : &sums;
    int64_t loss = evaluates ? run->evaluate_loss : run->train_loss;
    if (loss >= 0 && !isfinite(sound->values[loss])) value = NAN;
    ends = take(self, &judged, value, room.best, &report.is_best);
  }
  if (judged.has_best && run->restores) copy_states(self, room.best, 1);
  return error;
}
