/* Whole runs: epochs over rows in memory, as `runtime execute` makes them; link it, and prograd_rows.c,
 * only if you call it. The means of metrics, the evaluations, the best states, plateaus and the early
 * end are those of the runtime, so the hash at the end is the same. */
#include "prograd_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t even(int64_t bytes) { return (bytes + 63) & ~(int64_t)63; }

static int64_t most(int64_t one, int64_t other) { return one > other ? one : other; }

/* Lay out the room of a run from `start` on, or only measure it; return its bytes. */
static int64_t lay_out(const prograd *self, const prograd_rows *train, const prograd_rows *evaluated,
                       unsigned char *start, prograd_course *course) {
  const prograd_program *program = self->program;
  const prograd_run_table *run = program->run;
  int64_t at = 0, fed = 0, fetched = 0, rows = most(train->count, evaluated ? evaluated->count : 0);
  for (int64_t i = 0; i < program->sizes->entries; i++) {
    const prograd_entry *entry = program->entries + i;
    for (int64_t j = 0; j < entry->feed_count; j++) fed = most(fed, program->places[entry->feeds + j].bytes);
    for (int64_t j = 0; j < entry->fetch_count; j++) /* bfloat16 becomes float */
      fetched = most(fetched, 2 * program->places[entry->fetches + j].bytes);
  }
  for (int i = 0; i < MOST_FETCHES; i++) {
    course->feeds[i] = start + at, at += i < run->most_feeds ? even(fed) : 0;
    course->fetches[i] = start + at, at += i < run->most_fetches ? even(fetched) : 0;
  }
  course->order = (int64_t *)(start + at), at += even(rows * 8);
  course->other = (int64_t *)(start + at), at += even(rows * 8);
  course->turns = (int64_t *)(start + at), at += even(rows * 8);
  course->keys = (uint64_t *)(start + at), at += even(rows * 8);
  course->found_best = (int64_t *)(start + at), at += even(program->sizes->states * 8);
  course->watches = (prograd_watch *)(start + at), at += even(run->watch_count * (int64_t)sizeof *course->watches);
  course->top = (prograd_ranked *)(start + at), at += even((run->best_checkpoints + 1) * (int64_t)sizeof *course->top);
  course->infinite = start + at, at += even(program->sizes->states);
  course->text = (char *)start + at, at += even(run->about_bytes);
  course->best = start + at;
  for (int64_t i = 0; i < program->sizes->states; i++) at += run->best_metric < 0 ? 0 : program->states[i].bytes;
  return at;
}

int64_t prograd_run_bytes(const prograd *self, const prograd_rows *train, const prograd_rows *evaluated) {
  prograd_course course;
  return lay_out(self, train, evaluated, NULL, &course) + 64;
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

/* Return a number that the program declares, or the present value of the setting that has it. */
static double declared(const prograd *self, const prograd_number *number) {
  double value;
  int64_t whole;
  if (number->setting < 0) return memcpy(&value, &number->bits, 8), value;
  const prograd_state_place *state = self->program->states + number->setting;
  if (!strcmp(prograd_text(self, state->word), "F64")) return memcpy(&value, self->memory + state->at, 8), value;
  return memcpy(&whole, self->memory + state->at, 8), (double)whole;
}

/* Make a step with the rows at positions from `first` on, and add its numbers to the sums. */
static int step(prograd_course *course, int64_t number, const prograd_rows *rows, int64_t first, double *sums) {
  prograd *self = course->self;
  const prograd_entry *entry = self->program->entries + number;
  const prograd_place *fetch = self->program->places + entry->fetches;
  prograd_fill(course, number, rows, first);
  int error = prograd_step(self, (int)number, (const void *const *)course->feeds, (void *const *)course->fetches);
  for (int64_t i = 0; !error && i < entry->fetch_count; i++) {
    double value = fetch[i].over == PROGRAD_TABLE ? 0 : number_of(fetch + i, course->fetches[i]);
    if (fetch[i].over == PROGRAD_LAST) sums[i] = value;
    else sums[i] += fetch[i].over == PROGRAD_MEAN ? value * (double)entry->rows : value;
  }
  return error;
}

static int not_finite(prograd *self, const char *why) {
  return prograd_fail(self, PROGRAD_NOT_FINITE, why, "; a lower learning rate or clipping may help");
}

static int train_step(prograd_course *course) {
  prograd *self = course->self;
  prograd_position *p = &course->position;
  const prograd_rows *rows = course->train;
  const prograd_run_table *run = course->run;
  int64_t number = run->train, batch = self->program->entries[number].rows, first = p->step * batch;
  if (p->step == 0) prograd_begin_epoch(self);
  if (rows->count - first < batch) { /* the last step of an epoch, with fewer rows */
    batch = rows->count - first;
    while (self->program->entries[number].rows != batch) number++;
  } else if (prograd_is_ragged(self, number, rows)) {
    int64_t length = prograd_length_at(course, number, run->train_count, rows, course->order[first + batch - 1]);
    number = prograd_entry_of(self, number, run->train_count, length);
  }
  int error = step(course, number, rows, first, p->sums);
  if (error) return error;
  p->step++, p->steps++, p->summed_rows += batch;
  const prograd_entry *entry = self->program->entries + number;
  for (int64_t i = 0; i < entry->fetch_count; i++) {
    const prograd_place *fetch = self->program->places + entry->fetches + i;
    double value = fetch->watched ? number_of(fetch, course->fetches[i]) : 0;
    char why[128];
    if (isfinite(value)) continue;
    snprintf(why, sizeof why, "step %lld: %.60s is %s", (long long)p->steps, prograd_text(self, fetch->name),
             isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    return not_finite(self, why);
  }
  return PROGRAD_OK;
}

static void combine(const prograd *self, int64_t number, const double *sums, int64_t rows, double *to) {
  const prograd_entry *entry = self->program->entries + number;
  for (int64_t i = 0; i < entry->fetch_count; i++) {
    int is_mean = self->program->places[entry->fetches + i].over == PROGRAD_MEAN;
    to[i] = is_mean ? sums[i] / (double)rows : sums[i];
  }
}

static void tell(const prograd_course *course, int64_t number, const double *values, prograd_report report) {
  const prograd_entry *entry = course->self->program->entries + number;
  const prograd_place *fetch = course->self->program->places + entry->fetches;
  for (int64_t i = 0; course->said && i < entry->fetch_count; i++) {
    if (fetch[i].over == PROGRAD_TABLE) continue;
    report.metric = prograd_text(course->self, fetch[i].name);
    report.value = values[i];
    course->said(&report, course->context);
  }
}

static int are_left(prograd *self, int64_t first, int64_t end, int64_t length, int64_t count, int64_t left) {
  char why[200], sizes[80] = "";
  size_t used = 0;
  for (int64_t i = first; i < end; i++) {
    if (self->program->entries[i].length != length || used + 25 > sizeof sizes) continue;
    used += (size_t)sprintf(sizes + used, used ? " or %lld" : "%lld", (long long)self->program->entries[i].rows);
  }
  snprintf(why, sizeof why, "entry '%.40s' takes %s rows a step, and of %lld rows %lld are left",
           prograd_text(self, self->program->entries[first].name), sizes, (long long)count, (long long)left);
  return prograd_fail(self, PROGRAD_NO_ROWS, why, "");
}

static int evaluate(prograd_course *course, double *values) {
  prograd *self = course->self;
  const prograd_rows *rows = course->evaluated;
  int64_t first = course->run->evaluate, count = course->run->evaluate_count, at = 0;
  int64_t lengths = prograd_lengths(self, first, count), batch = self->program->entries[first].rows;
  double sums[MOST_FETCHES] = {0};
  for (int64_t i = 0; i < rows->count; i++) course->order[i] = i;
  int error = prograd_by_length(course, first, count, rows);
  prograd_begin_evaluation(self);
  for (int64_t length = 0; length < lengths; length++) {
    int64_t start = at, stop = at; /* the last rows that fill no step of a length go to the next one */
    while (stop < rows->count && prograd_length_at(course, first, count, rows, course->order[stop]) <= length) stop++;
    if (length < lengths - 1) stop -= stop % batch;
    for (int64_t i = first; i < first + count; i++) { /* the largest first */
      const prograd_entry *entry = self->program->entries + i;
      for (; !error && entry->length == length && at + entry->rows <= stop; at += entry->rows)
        error = step(course, i, rows, at, sums);
    }
    if (!error && at < stop) error = are_left(self, first, first + count, length, stop - start, stop - at);
    at = stop;
  }
  if (!error) combine(self, first, sums, rows->count, values);
  return error;
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

static int is_better(double value, int64_t higher, int64_t has, double best, double delta) {
  if (isnan(value)) return 0;
  return !has || (higher ? value > best + delta : value < best - delta);
}

/* Take the next value of a watched metric; return 1 if it is better. */
static int take(prograd_watch *watch, double value, int64_t higher, double delta) {
  int counts = watch->cooldown == 0;
  watch->exists = 1;
  watch->cooldown = watch->cooldown > 1 ? watch->cooldown - 1 : 0;
  if (is_better(value, higher, watch->has_best, watch->best, delta)) {
    watch->best = value, watch->has_best = 1, watch->wait = 0;
    return 1;
  }
  watch->wait = counts ? watch->wait + 1 : 0;
  return 0;
}

/* Multiply the state of a plateau if its patience is at an end. */
static void reduce(prograd_course *course, const prograd_plateau *plateau, double value) {
  prograd *self = course->self;
  prograd_watch *watch = course->watches + plateau->watch;
  double before, after;
  take(watch, value, plateau->higher, declared(self, &plateau->min_delta));
  if ((double)watch->wait < declared(self, &plateau->patience)) return;
  unsigned char *state = self->memory + self->program->states[plateau->state].at;
  memcpy(&before, state, 8);
  after = before * declared(self, &plateau->factor);
  if ((before < 0 ? before : 0) > after) after = before < 0 ? before : 0;
  memcpy(state, &after, 8);
  self->changes++;
  watch->wait = 0, watch->cooldown = (int64_t)declared(self, &plateau->cooldown);
}

/* Rank an evaluation among the best, whose checkpoints are kept; of equal ones the earlier comes first. */
static void rank(prograd_course *course, double value) {
  prograd_position *p = &course->position;
  int64_t at = p->ranked, most_ranked = course->run->best_checkpoints;
  if (!most_ranked || isnan(value)) return;
  for (; at && (course->run->higher ? value > course->top[at - 1].value : value < course->top[at - 1].value); at--)
    course->top[at] = course->top[at - 1];
  course->top[at] = (prograd_ranked){value, p->steps};
  p->ranked = p->ranked < most_ranked ? p->ranked + 1 : most_ranked;
}

/* Judge the run by its metrics, as runtime/runs/watching/judge.py does; return 1 for the best states so far. */
static int judge(prograd_course *course, int is_evaluated) {
  const prograd_run_table *run = course->run;
  prograd_position *p = &course->position;
  const prograd_plateau *plateaus = (const prograd_plateau *)(course->self->program->numbers + run->plateaus);
  if (!is_evaluated && ((run->every && course->evaluated) || (run->best_metric < 0 && !run->plateau_count))) return 0;
  p->judged = p->steps;
  int64_t loss = is_evaluated ? run->evaluate_loss : run->train_loss;
  int is_sound = loss < 0 || isfinite((is_evaluated ? p->evaluation : p->metrics)[loss]);
  for (int64_t i = 0; i < run->plateau_count; i++) {
    double value = (plateaus[i].of_evaluation ? p->evaluation : p->metrics)[plateaus[i].metric];
    reduce(course, plateaus + i, is_sound ? value : (double)NAN);
  }
  if (run->best_metric < 0) return 0;
  double value = (run->best_of_evaluation ? p->evaluation : p->metrics)[run->best_metric];
  double delta = declared(course->self, &run->min_delta), patience = declared(course->self, &run->patience);
  if (!is_sound) value = NAN;
  rank(course, value);
  int is_best = is_better(value, run->higher, p->has_best, p->best_metric, 0), improved = is_best;
  if (is_best) {
    p->best_metric = value, p->has_best = 1, p->has_best_evaluation = is_evaluated;
    memcpy(p->best_evaluation, p->evaluation, sizeof p->evaluation);
    p->best_at[0] = p->epoch, p->best_at[1] = p->step, p->best_at[2] = p->steps;
    if (run->restores) copy_states(course->self, course->best, 0);
  }
  if (delta > 0) improved = take(course->watches + run->stop_watch, value, run->higher, delta);
  p->stale = improved ? 0 : p->stale + 1;
  p->stopped = 0 < patience && patience <= (double)p->stale;
  return is_best;
}

/* Return 0 for finite elements, 1 for an infinite one, 2 for NaN. */
static int fault_of(const prograd *self, const prograd_state_place *state) {
  const unsigned char *bytes = self->memory + state->at;
  int found = 0, is_half = !strcmp(prograd_text(self, state->word), "F16");
  for (int64_t i = 0; i < state->bytes; i += state->item) {
    uint64_t bits = 0, exponent = state->item == 8 ? 0x7FF0000000000000 : is_half ? 0x7C000000 : 0x7F800000;
    uint16_t half;
    uint32_t single;
    if (state->item == 8) memcpy(&bits, bytes + i, 8), bits &= 0x7FFFFFFFFFFFFFFF;
    else if (state->item == 4) memcpy(&single, bytes + i, 4), bits = single & 0x7FFFFFFF;
    else memcpy(&half, bytes + i, 2), bits = (uint64_t)(half & 0x7FFF) << 16;
    if (bits > exponent) return 2;
    found |= bits == exponent;
  }
  return found;
}

/* Look for NaN in the states that training changes, and for Inf in parameters that had none at the start. */
int prograd_require_finite(prograd_course *course) {
  prograd *self = course->self;
  for (int64_t i = 0; i < self->program->sizes->states; i++) {
    const prograd_state_place *state = self->program->states + i;
    int found = state->finite ? fault_of(self, state) : 0;
    char why[128];
    if (found != 2 && (!found || state->finite != 2 || course->infinite[i])) continue;
    snprintf(why, sizeof why, "after step %lld: the state '%.60s' has %s", (long long)course->position.steps,
             prograd_text(self, state->name), found == 2 ? "NaN" : "Inf");
    return not_finite(self, why);
  }
  return PROGRAD_OK;
}

/* Combine the metrics of an epoch, evaluate if it is time, and begin the next epoch. */
static int close_epoch(prograd_course *course) {
  const prograd_run_table *run = course->run;
  prograd_position *p = &course->position;
  prograd_report report = {.epoch = p->epoch + 1, .step = p->steps};
  int is_evaluated = run->every && course->evaluated &&
                     (report.epoch % run->every == 0 || p->steps == course->total);
  int error = prograd_require_finite(course);
  if (!error && is_evaluated) error = evaluate(course, p->evaluation);
  if (error) return error;
  p->has_evaluation |= is_evaluated;
  combine(course->self, run->train, p->sums, p->summed_rows, p->metrics);
  p->has_metrics = 1, p->closed = p->steps;
  if (p->step == course->per_epoch) {
    p->epoch++, p->step = 0, p->summed_rows = 0;
    memset(p->sums, 0, sizeof p->sums);
  }
  error = prograd_order(course, p->epoch);
  tell(course, run->train, p->metrics, report);
  report.is_best = judge(course, is_evaluated);
  report.is_evaluation = 1;
  if (is_evaluated) tell(course, run->evaluate, p->evaluation, report);
  return error;
}

static int is_at_end(const prograd_course *course) {
  return course->position.step == course->per_epoch || course->position.steps == course->total;
}

static int is_among_best(const prograd_course *course) {
  const prograd_position *p = &course->position;
  for (int64_t i = 0; i < p->ranked; i++)
    if (p->judged == p->steps && course->top[i].steps == p->steps) return 1;
  return 0;
}

/* Write a checkpoint, unless there are none or the last one has this position. */
static int write(prograd_course *course) {
  prograd_position *p = &course->position;
  if (!course->write || (course->saved[0] == p->steps && course->saved[1] == p->closed)) return PROGRAD_OK;
  int error = prograd_require_finite(course);
  if (!error) error = course->write(course);
  course->saved[0] = p->steps, course->saved[1] = p->closed;
  return error;
}

int prograd_train(prograd_course *course) {
  prograd_position *p = &course->position;
  int error = prograd_order(course, p->epoch);
  for (int64_t i = 0; i < course->self->program->sizes->states; i++)
    course->infinite[i] = course->self->program->states[i].finite == 2 &&
                          fault_of(course->self, course->self->program->states + i) == 1;
  while (!error) {
    if (p->closed < p->steps && is_at_end(course)) {
      error = close_epoch(course);
      if (!error && (!course->every || p->steps % course->every == 0 || is_among_best(course))) error = write(course);
    }
    if (error || p->steps >= course->total || p->stopped) break;
    error = train_step(course);
    if (!error && course->every && p->steps % course->every == 0 && !is_at_end(course)) error = write(course);
  }
  if (!error) error = write(course);
  int is_whole = !error || error == PROGRAD_NOT_FINITE;
  if (is_whole && p->has_best && course->run->restores) copy_states(course->self, course->best, 1);
  return error;
}

int prograd_set_up(prograd_course *course, prograd *self, const prograd_rows *train, const prograd_rows *evaluated,
                   void *room, prograd_said *said, void *context) {
  const prograd_run_table *run = self->program->run;
  memset(course, 0, sizeof *course);
  course->self = self, course->run = run, course->train = train, course->evaluated = evaluated;
  course->said = said, course->context = context;
  course->saved[0] = -1;
  lay_out(self, train, evaluated, (unsigned char *)(((uintptr_t)room + 63) & ~(uintptr_t)63), course);
  memset(course->watches, 0, (size_t)run->watch_count * sizeof *course->watches);
  if (run->unsupported >= 0) return prograd_fail(self, PROGRAD_NO_ROWS, prograd_text(self, run->unsupported), "");
  const prograd_entry *entries = self->program->entries + run->train;
  int64_t batch = entries->rows, left = train->count % batch, has_rest = 0;
  for (int64_t i = 0; i < run->train_count; i++)
    if (entries[i].length == entries->length && entries[i].rows == left) has_rest = 1;
  if (run->remainder != PROGRAD_AS_STEPS_ALLOW && run->remainder != PROGRAD_PARTIAL) has_rest = 0;
  if ((!has_rest && train->count < batch) || (left && !has_rest && run->remainder != PROGRAD_DROP))
    return prograd_fail(self, PROGRAD_NO_ROWS, "the rows to train on do not fill the steps of an epoch", "");
  course->per_epoch = train->count / batch + has_rest;
  course->position.rows = train->count;
  return PROGRAD_OK;
}

/* Set the length of the run: that of its program, or that which it began with, for 0 epochs. */
int prograd_plan(prograd_course *course, int64_t epochs) {
  const prograd_entry *entry = course->self->program->entries + course->run->train;
  prograd_position *p = &course->position;
  int64_t own = *(const int64_t *)prograd_state(course->self, "total_steps", NULL);
  course->total = (epochs ? epochs : course->run->epochs) * course->per_epoch;
  if (p->steps && !epochs) course->total = own;
  if (p->steps && own != course->total) {
    char why[160];
    snprintf(why, sizeof why, "the run began with %lld steps in all, this would be %lld, which changes schedules",
             (long long)own, (long long)course->total);
    if (entry->reads_length) return prograd_fail(course->self, PROGRAD_NO_LENGTH, why, "");
    p->stopped = 0;
  }
  if (p->steps && course->total <= p->steps) return PROGRAD_OK;
  return prograd_set(course->self, "total_steps", &course->total, sizeof course->total);
}

int prograd_run(prograd *self, const prograd_rows *train, const prograd_rows *evaluated, int64_t epochs, void *room,
                prograd_said *said, void *context) {
  prograd_course course;
  int error = prograd_set_up(&course, self, train, evaluated, room, said, context);
  if (!error) error = prograd_plan(&course, epochs);
  return error ? error : prograd_train(&course);
}
