/* Checkpoints of a run in the format of the runtime (docs/format.md), so either goes on where the other
 * stopped; link it only if you call it. It needs POSIX. */
#define _POSIX_C_SOURCE 200809L
#include "prograd_checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 1024, NAME_BYTES = 64 };
static const char BEST[] = "run:best:";

typedef struct { /* the tensors of a checkpoint in order: states, and those of the best evaluation */
  const prograd *self;
  const int64_t *order; /* numbers of states; NULL for the order of files */
  int64_t plain, best, bests;
} walk;

/* Return the number of the next tensor's state, or -1. */
static int64_t walk_on(walk *w, int *is_best) {
  const prograd_state_place *states = w->self->program->states;
  int64_t count = w->self->program->sizes->states;
  int64_t a = w->plain == count ? -1 : w->order ? w->order[w->plain] : w->plain;
  int64_t b = w->best == w->bests ? -1 : w->order ? w->order[w->best] : w->best;
  *is_best = a < 0;
  if (a >= 0 && b >= 0) {
    const char *name = prograd_text(w->self, states[a].name);
    int order = strncmp(name, BEST, sizeof BEST - 1);
    if (order == 0) order = strcmp(name + sizeof BEST - 1, prograd_text(w->self, states[b].name));
    if (!w->order && states[a].item != states[b].item) order = states[a].item < states[b].item ? 1 : -1;
    *is_best = order > 0;
  }
  *is_best ? w->best++ : w->plain++;
  return *is_best ? b : a;
}

static int64_t bests(const prograd_course *course) {
  return course->position.has_best && course->run->restores ? course->self->program->sizes->states : 0;
}

static const unsigned char *elements(const prograd_course *course, int64_t state, int is_best) {
  const prograd *self = course->self;
  return is_best ? course->best + course->found_best[state] : self->memory + self->program->states[state].at;
}

/* Describe the run in its room, as the line of JSON that a checkpoint has; return 0 if it does not fit. */
static int describe(const prograd_course *course) {
  const prograd *self = course->self;
  prograd_sink s = {.to = course->text, .room = course->run->about_bytes};
  walk w = {self, self->program->numbers + self->program->sizes->by_name, 0, 0, bests(course)};
  prograd_hash h;
  char digits[65];
  int is_best = 0;
  prograd_hash_begin(&h);
  prograd_hash_number(&h, (uint64_t)(self->program->sizes->states + w.bests));
  for (int64_t i; (i = walk_on(&w, &is_best)) >= 0;) {
    const prograd_state_place *state = self->program->states + i;
    prograd_hash_tensor(&h, self, state, is_best ? BEST : "", prograd_text(self, state->name));
    prograd_hash_add(&h, elements(course, i, is_best), (size_t)state->bytes);
  }
  prograd_hash_end(&h, digits);
  prograd_put(&s, prograd_text(self, course->run->about)), prograd_put_position(&s, course);
  prograd_put(&s, prograd_text(self, course->run->about_end)), prograd_put(&s, digits), prograd_put(&s, "\"}");
  return s.count < s.room;
}

static void put_field(prograd_sink *s, const char *key, int64_t value) {
  prograd_put(s, key), prograd_put_count(s, value);
}

static void put_header(prograd_sink *s, const prograd_course *course, const char *about_sha256) {
  const prograd *self = course->self;
  walk w = {self, NULL, 0, 0, bests(course)};
  int64_t end = 0;
  int is_best = 0;
  prograd_put(s, "{\"__metadata__\":{\"prograd\":\""), s->escapes = 1, prograd_put(s, course->text), s->escapes = 0;
  prograd_put(s, "\",\"prograd_sha256\":\""), prograd_put(s, about_sha256), prograd_put(s, "\"}");
  for (int64_t i; (i = walk_on(&w, &is_best)) >= 0;) {
    const prograd_state_place *state = self->program->states + i;
    prograd_put(s, ","), prograd_put_name(s, is_best ? BEST : "", prograd_text(self, state->name));
    prograd_put(s, ":{\"dtype\":\""), prograd_put(s, prograd_text(self, state->word)), prograd_put(s, "\",\"shape\":[");
    for (int64_t j = 0; j < state->rank; j++) put_field(s, j ? "," : "", self->program->numbers[state->shape + j]);
    put_field(s, "],\"data_offsets\":[", end), put_field(s, ",", end += state->bytes), prograd_put(s, "]}");
  }
  prograd_put(s, "}");
  while (s->count % 8) prograd_put(s, " ");
}

static void sha256_of(const char *text, char digits[65]) {
  prograd_hash h;
  prograd_hash_begin(&h);
  prograd_hash_add(&h, text, strlen(text));
  prograd_hash_end(&h, digits);
}

static int write_file(const prograd_course *course, FILE *file) {
  walk w = {course->self, NULL, 0, 0, bests(course)};
  prograd_sink counted = {0}, s = {.file = file};
  char digits[65];
  int is_best = 0;
  sha256_of(course->text, digits);
  put_header(&counted, course, digits);
  for (int i = 0; i < 8; i++) putc((int)(counted.count >> 8 * i & 255), file);
  put_header(&s, course, digits);
  for (int64_t i; (i = walk_on(&w, &is_best)) >= 0;) {
    size_t bytes = (size_t)course->self->program->states[i].bytes;
    if (fwrite(elements(course, i, is_best), 1, bytes, file) != bytes) return 0;
  }
  return !fflush(file) && !fsync(fileno(file));
}

/* Return the number of steps in the name of a checkpoint; -1 for another file. */
static int64_t steps_of(const char *name) {
  size_t digits = strncmp(name, "step-", 5) ? 0 : strspn(name + 5, "0123456789");
  return digits < 10 || digits > 18 || strcmp(name + 5 + digits, ".safetensors") ? -1 : atoll(name + 5);
}

/* Look for the newest checkpoint below a number of steps; return its steps, or -1. `newer` counts the others. */
static int64_t newest(const char *folder, int64_t below, char name[NAME_BYTES], int64_t *newer) {
  DIR *listed = opendir(folder);
  int64_t found = -1;
  *newer = 0;
  for (struct dirent *each; listed && (each = readdir(listed));) {
    int64_t steps = steps_of(each->d_name);
    *newer += steps >= below;
    if (steps <= found || steps >= below) continue;
    found = steps;
    snprintf(name, NAME_BYTES, "%.63s", each->d_name);
  }
  if (listed) closedir(listed);
  return found;
}

static int join(prograd *self, char path[PATH_BYTES], const char *folder, const char *name) {
  int bytes = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
  return bytes < PATH_BYTES ? PROGRAD_OK : prograd_fail(self, PROGRAD_NO_FILE, folder, ": too long");
}

static int open_file(prograd *self, const char *path, prograd_source *s) {
  FILE *file = fopen(path, "rb");
  long size = file && !fseek(file, 0, SEEK_END) ? ftell(file) : -1;
  if (size >= 0 && !fseek(file, 0, SEEK_SET)) return s->file = file, s->size = (uint64_t)size, PROGRAD_OK;
  if (file) fclose(file);
  return prograd_fail(self, PROGRAD_NO_FILE, path, ": cannot be read");
}

/* Return True if a checkpoint is one of this program. */
static int is_ours(prograd *self, const char *path) {
  prograd_source s = {0};
  if (open_file(self, path, &s)) return 0;
  prograd_read_header(self, &s, path);
  fclose(s.file);
  return s.matched == 78 && !strcmp(s.sha256, prograd_text(self, self->program->sizes->sha256));
}

/* Remove our checkpoints that are neither among the newest nor of the best evaluations. */
static void prune(const prograd_course *course) {
  const char *folder = course->checkpoints->folder;
  char name[NAME_BYTES], path[PATH_BYTES];
  int64_t keep = course->checkpoints->keep > 0 ? course->checkpoints->keep : 3, newer;
  for (int64_t below = INT64_MAX; (below = newest(folder, below, name, &newer)) >= 0;) {
    int is_kept = newer < keep;
    for (int64_t i = 0; i < course->position.ranked; i++) is_kept |= course->top[i].steps == below;
    if (!is_kept && !join(course->self, path, folder, name) && is_ours(course->self, path)) remove(path);
  }
}

static int write_checkpoint(prograd_course *course) {
  prograd *self = course->self;
  const char *folder = course->checkpoints->folder;
  char name[NAME_BYTES], path[PATH_BYTES], other[PATH_BYTES];
  int64_t offset = 0;
  snprintf(name, sizeof name, ".prograd-%ld-0.tmp", (long)getpid()); /* the runtime removes it if we are killed */
  int error = join(self, other, folder, name);
  snprintf(name, sizeof name, "step-%010lld.safetensors", (long long)course->position.steps);
  if (!error) error = join(self, path, folder, name);
  if (error) return error;
  for (int64_t i = 0; i < self->program->sizes->states; offset += self->program->states[i++].bytes)
    course->found_best[i] = offset;
  if (!describe(course)) return prograd_fail(self, PROGRAD_NO_FILE, path, ": the run's description has no room");
  remove(other); /* a process of our number may have been killed */
  int made = open(other, O_WRONLY | O_CREAT | O_EXCL, 0666);
  FILE *file = made < 0 ? NULL : fdopen(made, "wb");
  int is_whole = file && write_file(course, file);
  is_whole = file && !fclose(file) && is_whole && !rename(other, path);
  if (!is_whole) return remove(other), prograd_fail(self, PROGRAD_NO_FILE, path, ": cannot be written");
  int at = open(folder, O_RDONLY);
  if (at >= 0) fsync(at), close(at);
  prune(course);
  return PROGRAD_OK;
}

static int is_text(const char *at, const char *text) {
  size_t bytes = strlen(text);
  return at && *at == '"' && !strncmp(at + 1, text, bytes) && at[1 + bytes] == '"';
}

/* Hash the tensors of a file as they are there; return False if it cannot be read, or the hash is another one. */
static int has_hash(prograd_course *course, prograd_source *s, const char *wanted) {
  prograd *self = course->self;
  const prograd_sizes *sizes = self->program->sizes;
  const int64_t *found = (const int64_t *)(self->memory + sizes->found);
  walk w = {self, self->program->numbers + sizes->by_name, 0, 0, sizes->states};
  prograd_hash h;
  unsigned char block[4096];
  char digits[65];
  uint64_t count = 0;
  int is_best = 0;
  for (int64_t i = 0; i < sizes->states; i++) count += (uint64_t)((found[i] >= 0) + (course->found_best[i] >= 0));
  prograd_hash_begin(&h);
  prograd_hash_number(&h, count);
  for (int64_t i; (i = walk_on(&w, &is_best)) >= 0;) {
    const prograd_state_place *state = self->program->states + i;
    int64_t at = (is_best ? course->found_best : found)[i];
    if (at < 0) continue;
    prograd_hash_tensor(&h, self, state, is_best ? BEST : "", prograd_text(self, state->name));
    if (fseek(s->file, (long)(8 + s->header + (uint64_t)at), SEEK_SET)) return 0;
    for (int64_t left = state->bytes, part; left; left -= part) {
      part = left < (int64_t)sizeof block ? left : (int64_t)sizeof block;
      if (fread(block, 1, (size_t)part, s->file) != (size_t)part) return 0;
      prograd_hash_add(&h, block, (size_t)part);
    }
  }
  prograd_hash_end(&h, digits);
  return is_text(wanted, digits);
}

/* Require that states which a checkpoint leaves out have the values that the run had. */
static int require_left_out(prograd_course *course, const char *left_out) {
  prograd *self = course->self;
  const int64_t *found = (const int64_t *)(self->memory + self->program->sizes->found);
  for (int64_t i = 0; i < self->program->sizes->states; i++) {
    const prograd_state_place *state = self->program->states + i;
    const char *name = prograd_text(self, state->name), *wanted = prograd_value_of(left_out, name);
    prograd_hash h;
    char digits[65];
    if (found[i] >= 0) continue;
    if (!wanted) return prograd_fail(self, PROGRAD_OTHER_PROGRAM, name, " is not in the file");
    prograd_hash_begin(&h), prograd_hash_number(&h, 1), prograd_hash_tensor(&h, self, state, "", "");
    prograd_hash_add(&h, self->memory + state->at, (size_t)state->bytes), prograd_hash_end(&h, digits);
    if (!is_text(wanted, digits))
      return prograd_fail(self, PROGRAD_OTHER_PROGRAM, name, " is not in the file, and the run had other values");
  }
  return PROGRAD_OK;
}

static int copy_in(prograd_course *course, prograd_source *s, const char *path) {
  prograd *self = course->self;
  const int64_t *found = (const int64_t *)(self->memory + self->program->sizes->found);
  unsigned char *best = course->best;
  int is_read = 1, has_best = course->position.has_best && course->run->restores;
  for (int64_t i = 0; i < self->program->sizes->states; i++) {
    const prograd_state_place *state = self->program->states + i;
    size_t bytes = (size_t)state->bytes;
    for (int is_best = 0; is_best < 1 + has_best; is_best++) {
      int64_t at = (is_best ? course->found_best : found)[i];
      unsigned char *to = is_best ? best : self->memory + state->at;
      if (at >= 0)
        is_read &= !fseek(s->file, (long)(8 + s->header + (uint64_t)at), SEEK_SET) &&
                   fread(to, 1, bytes, s->file) == bytes;
      else if (is_best) memcpy(to, self->memory + state->at, bytes); /* one that no step changes */
    }
    best += has_best ? bytes : 0;
  }
  self->changes++;
  return is_read ? PROGRAD_OK : prograd_fail(self, PROGRAD_NO_FILE, path, ": cannot be read");
}

static int require_same_rows(prograd_course *course, const char *rows, const char *path) {
  const char *train = prograd_value_of(rows, "train"), *evaluate = prograd_value_of(rows, "evaluate");
  if (course->position.rows == course->train->count && (!train || is_text(train, course->train_sha256)) &&
      (!evaluate || !course->evaluated || is_text(evaluate, course->evaluated_sha256)))
    return PROGRAD_OK;
  return prograd_fail(course->self, PROGRAD_NO_ROWS, path, ": the run began with other rows than these");
}

/* Read a checkpoint into states and position; an error leaves both as they were, but for the room. */
static int read_checkpoint(prograd_course *course, prograd_source *s, const char *path) {
  prograd *self = course->self;
  char digits[65];
  *s->about = 0;
  int error = prograd_read_header(self, s, path);
  const char *about = s->about, *position = prograd_value_of(about, "position");
  if (s->matched == 78 && strcmp(s->sha256, prograd_text(self, self->program->sizes->sha256)))
    return prograd_fail(self, PROGRAD_OTHER_PROGRAM, path, ": the checkpoint is of another program");
  if (error) return error;
  if (!*about) return prograd_fail(self, PROGRAD_OTHER_PROGRAM, path, ": has states and no run to go on with; load it");
  sha256_of(about, digits);
  if (strcmp(digits, s->about_sha256) || !has_hash(course, s, prograd_value_of(about, "tensors_sha256")))
    return prograd_fail(self, PROGRAD_DAMAGED, path, ": damaged: it does not have the hash that it names");
  if ((error = require_left_out(course, prograd_value_of(about, "left_out")))) return error;
  const char *format = prograd_value_of(about, "format");
  if (!is_text(prograd_value_of(about, "program_sha256"), prograd_text(self, self->program->sizes->sha256)) ||
      !format || *format != '2' || !prograd_is_position(course, position))
    return prograd_fail(self, PROGRAD_OTHER_PROGRAM, path,
                        ": the checkpoint is of a run that this program does not make");
  if ((error = require_same_rows(course, prograd_value_of(position, "rows_sha256"), path))) return error;
  return copy_in(course, s, path);
}

/* Go on from the newest checkpoint that is whole; without any, the run begins. */
static int resume(prograd_course *course, prograd_checkpoints *checkpoints) {
  prograd *self = course->self;
  const prograd_position start = course->position;
  char name[NAME_BYTES], path[PATH_BYTES], aside[PATH_BYTES + 16];
  int64_t newer;
  for (int64_t below = INT64_MAX; (below = newest(checkpoints->folder, below, name, &newer)) >= 0;) {
    size_t room = (size_t)course->run->about_bytes;
    prograd_source s = {.best = course->found_best, .about = course->text, .about_bytes = room};
    int error = join(self, path, checkpoints->folder, name);
    if (!error) error = open_file(self, path, &s);
    if (error) return error;
    error = read_checkpoint(course, &s, path);
    fclose(s.file);
    if (error != PROGRAD_DAMAGED) return error;
    snprintf(aside, sizeof aside, "%s.damaged", path);
    for (int i = 2; !access(aside, F_OK) && i < 1000; i++) snprintf(aside, sizeof aside, "%s.damaged-%d", path, i);
    if (rename(path, aside)) return prograd_fail(self, PROGRAD_NO_FILE, path, ": damaged, and cannot be renamed");
    checkpoints->damaged++;
    course->position = start;
  }
  if (!checkpoints->damaged) return PROGRAD_OK;
  return prograd_fail(self, PROGRAD_DAMAGED, checkpoints->folder, ": all checkpoints are damaged");
}

static int take_fingerprints(prograd_course *course) {
  int error = prograd_order(course, -1);
  if (error) return error;
  prograd_fingerprint(course, course->run->train, course->train, (int)course->run->shuffle, course->train_sha256);
  for (int64_t i = 0; course->evaluated && i < course->evaluated->count; i++) course->order[i] = i;
  if (course->evaluated)
    prograd_fingerprint(course, course->run->evaluate, course->evaluated, 0, course->evaluated_sha256);
  return PROGRAD_OK;
}

/* Lock a folder as the runtime does; return the descriptor of the lock, or -1 with an error. */
static int lock(prograd *self, const char *folder, char path[PATH_BYTES]) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  struct stat ours, there;
  if (mkdir(folder, 0777) && errno != EEXIST)
    return prograd_fail(self, PROGRAD_NO_FILE, folder, ": cannot be made"), -1;
  if (join(self, path, folder, ".prograd-lock")) return -1;
  int file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
  if (file < 0) return prograd_fail(self, PROGRAD_NO_FILE, folder, ": cannot be written"), -1;
  int is_held = fcntl(file, F_SETLK, &whole) && (errno == EACCES || errno == EAGAIN);
  if (!is_held && !fstat(file, &ours) && !stat(path, &there) && ours.st_ino == there.st_ino) return file;
  close(file);
  return prograd_fail(self, PROGRAD_NO_FILE, folder, ": another process writes checkpoints here"), -1;
}

static int begin(prograd_course *course, prograd_checkpoints *checkpoints, int64_t epochs) {
  char name[NAME_BYTES];
  int64_t newer;
  int error = take_fingerprints(course);
  if (!error && checkpoints->resumes) error = resume(course, checkpoints);
  else if (!error && newest(checkpoints->folder, INT64_MAX, name, &newer) >= 0)
    error = prograd_fail(course->self, PROGRAD_NO_FILE, checkpoints->folder,
                         ": there are checkpoints already; go on from them, or name another folder");
  return error ? error : prograd_plan(course, epochs);
}

int prograd_run_checkpointed(prograd *self, prograd_checkpoints *checkpoints, const prograd_rows *train,
                             const prograd_rows *evaluated, int64_t epochs, void *room, prograd_said *said,
                             void *context) {
  prograd_course course;
  char path[PATH_BYTES];
  int error = prograd_set_up(&course, self, train, evaluated, room, said, context);
  int locked = error ? -1 : lock(self, checkpoints->folder, path);
  if (locked < 0) return error ? error : PROGRAD_NO_FILE;
  checkpoints->damaged = 0;
  course.checkpoints = checkpoints, course.every = checkpoints->every, course.write = write_checkpoint;
  error = begin(&course, checkpoints, epochs);
  if (!error) error = prograd_train(&course);
  unlink(path);
  close(locked);
  return error;
}
