/* Files of states; see prograd.h. Compile with -DPROGRAD_NO_FILES for systems without files. */
#include "prograd_tables.h"
#if defined PROGRAD_SMALL || defined PROGRAD_IN_ONE /* else prograd.c has it */

#include <string.h>
#ifndef PROGRAD_NO_FILES
#include <stdio.h>
#endif

/* The format: 8 bytes with the length of a header, the header in JSON, then the elements. */
static void next(prograd_source *s) {
#ifndef PROGRAD_NO_FILES
  s->c = s->at >= s->size ? -1 : s->file ? getc((FILE *)s->file) : s->bytes[s->at];
#else
  s->c = s->at >= s->size ? -1 : s->bytes[s->at];
#endif
  s->at++;
}

static int take(prograd_source *s, int c) {
  while (s->c == ' ' || s->c == '\n') next(s);
  return s->c == c ? next(s), 1 : 0;
}

static int hexadecimal(prograd_source *s) { /* return the number of four digits, or -1 */
  int code = 0;
  for (int i = 0; i < 4; i++) {
    const char *digits = "0123456789abcdef0123456789ABCDEF", *found = s->c > 0 ? strchr(digits, s->c) : NULL;
    if (!found) return -1;
    code = 16 * code + (int)(found - digits) % 16;
    next(s);
  }
  return code;
}

static int escape(prograd_source *s, char to[4]) { /* return the bytes of UTF-8 that it stands for, or -1 */
  static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  const char *letter = s->c > 0 && s->c != 'u' ? strchr(letters, s->c) : NULL;
  if (letter) return *to = values[letter - letters], next(s), 1;
  int low = 0xDC00, code = s->c == 'u' ? next(s), hexadecimal(s) : -1;
  if (code < 0) return -1;
  if (code >> 10 == 0xD800 >> 10) { /* the first half of a pair */
    if (s->c != '\\' || (next(s), s->c != 'u') || (next(s), (low = hexadecimal(s)) >> 10 != 0xDC00 >> 10)) return -1;
    code = 0x10000 + ((code & 1023) << 10 | (low & 1023));
  }
  int more = (code > 0x7F) + (code > 0x7FF) + (code > 0xFFFF);
  for (int i = more; i > 0; i--, code >>= 6) to[i] = (char)(0x80 | (code & 63));
  to[0] = (char)(more ? (0xF0 << (3 - more) & 0xFF) | code : code);
  return more + 1;
}

static int text(prograd_source *s, char *to, size_t room) { /* what has no room is left out */
  static const char key[] = "program_sha256";
  size_t n = 0;
  if (!take(s, '"')) return 0;
  while (s->c >= 0 && s->c != '"') {
    char bytes[4] = {(char)s->c};
    int c = s->c, count = 1;
    next(s);
    if (c == '\\' && (count = escape(s, bytes)) < 0) return 0;
    for (int i = 0; i < count; i++) {
      c = (unsigned char)bytes[i];
      if (n + 1 < room) to[n++] = bytes[i];
      if (s->matched < 14) s->matched = c == key[s->matched] ? s->matched + 1 : c == key[0];
      else if (s->matched < 78 && c && strchr("0123456789abcdef", c)) s->sha256[s->matched++ - 14] = (char)c;
    }
  }
  to[n] = 0;
  return take(s, '"');
}

static int numbers(prograd_source *s, int64_t *to, int room) { /* return how many, or -1 */
  int n = 0;
  if (!take(s, '[')) return -1;
  while (!take(s, ']')) {
    if (n == room || (n && !take(s, ',')) || (take(s, ' '), s->c < '0') || s->c > '9') return -1;
    for (to[n] = 0; s->c >= '0' && s->c <= '9' && to[n] < INT64_MAX / 16; next(s))
      to[n] = 10 * to[n] + s->c - '0';
    n++;
  }
  return n;
}

static int tensor(prograd_source *s, char word[8], int64_t shape[32], int *rank, int64_t extent[2]) {
  char key[16];
  int parts = 0;
  if (!take(s, '{')) return 0;
  do {
    if (!text(s, key, sizeof key) || !take(s, ':')) return 0;
    if (prograd_same(key, "dtype") && text(s, word, 8)) parts |= 1;
    else if (prograd_same(key, "shape") && (*rank = numbers(s, shape, 32)) >= 0) parts |= 2;
    else if (prograd_same(key, "data_offsets") && numbers(s, extent, 2) == 2) parts |= 4;
    else return 0;
  } while (take(s, ','));
  return take(s, '}') && parts == 7;
}

static int metadata(prograd_source *s) { /* of a checkpoint, the description and its hash are kept */
  char key[16], unused[8];
  if (!take(s, '{')) return 0;
  if (take(s, '}')) return 1;
  do {
    if (!text(s, key, sizeof key) || !take(s, ':')) return 0;
    int is_about = s->about && prograd_same(key, "prograd"), is_hash = s->about && prograd_same(key, "prograd_sha256");
    if (!text(s, is_about ? s->about : is_hash ? s->about_sha256 : unused,
              is_about ? s->about_bytes : is_hash ? sizeof s->about_sha256 : sizeof unused)) return 0;
  } while (take(s, ','));
  return take(s, '}');
}

/* Look at the next tensor of the header, and note where the state of its name begins. */
static int look(prograd *self, prograd_source *s, int64_t *found) {
  char name[512], word[8];
  int64_t shape[32], extent[2];
  int rank = 0;
  if (!text(s, name, sizeof name) || !take(s, ':')) return PROGRAD_DAMAGED;
  if (prograd_same(name, "__metadata__")) return metadata(s) ? PROGRAD_OK : PROGRAD_DAMAGED;
  if (!tensor(s, word, shape, &rank, extent)) return PROGRAD_DAMAGED;
  if (extent[0] > extent[1] || 8 + s->header + (uint64_t)extent[1] > s->size) return PROGRAD_DAMAGED;
  int is_best = !strncmp(name, "run:best:", 9);
  const prograd_state_place *state = prograd_state_of(self, is_best && s->best ? name + 9 : name);
  for (char *c = name; !state && *c; c++) /* a name is printed: one of a stranger's file may be anything */
    if (*c < ' ' || *c > '~') *c = '?';
  if (!state) /* the best states of a run */
    return !strncmp(name, "run:", 4) ? PROGRAD_OK
           : prograd_fail(self, PROGRAD_OTHER_PROGRAM, name, " is in the file and is no state of the program");
  if (!prograd_same(prograd_text(self, state->word), word) || state->rank != rank ||
      memcmp(self->program->numbers + state->shape, shape, (size_t)rank * sizeof *shape) ||
      extent[1] - extent[0] != state->bytes)
    return prograd_fail(self, PROGRAD_OTHER_PROGRAM, prograd_text(self, state->name),
                        " has another type or shape in the file than in the program");
  (is_best ? s->best : found)[state - self->program->states] = extent[0];
  return PROGRAD_OK;
}

int prograd_read_header(prograd *self, prograd_source *s, const char *what) {
  const prograd_sizes *sizes = self->program->sizes;
  int64_t *found = (int64_t *)(self->memory + sizes->found);
  int error = PROGRAD_DAMAGED;
  memset(found, 255, (size_t)sizes->states * sizeof *found); /* -1 */
  if (s->best) memset(s->best, 255, (size_t)sizes->states * sizeof *s->best);
  next(s);
  for (int i = 0; i < 8 && s->c >= 0; i++, next(s)) s->header |= (uint64_t)s->c << 8 * i;
  if (s->size >= 8 && s->header <= s->size - 8 && take(s, '{'))
    do error = look(self, s, found);
    while (!error && take(s, ','));
  if (error == PROGRAD_DAMAGED || (!error && !take(s, '}')))
    return prograd_fail(self, PROGRAD_DAMAGED, what, ": cut short, or no file of tensors");
  return error;
}

static int read_states(prograd *self, prograd_source *s, const char *what, int all) {
  const prograd_sizes *sizes = self->program->sizes;
  int64_t *found = (int64_t *)(self->memory + sizes->found);
  int error = prograd_read_header(self, s, what);
  if (error) return error;
  if (s->matched == 78 && !prograd_same(s->sha256, prograd_text(self, sizes->sha256)))
    return prograd_fail(self, PROGRAD_OTHER_PROGRAM, what, ": has states of another program");
  for (int64_t i = 0; i < sizes->states; i++)
    if (found[i] < 0 && (all || !self->program->states[i].kept))
      return prograd_fail(self, PROGRAD_OTHER_PROGRAM, prograd_text(self, self->program->states[i].name),
                          " is not in the file");
  self->changes++;
  for (int64_t i = 0; i < sizes->states; i++) {
    const prograd_state_place *state = self->program->states + i;
    uint64_t at = 8 + s->header + (uint64_t)found[i];
    size_t bytes = (size_t)state->bytes;
    if (found[i] < 0) continue;
#ifndef PROGRAD_NO_FILES
    if (s->file && (fseek(s->file, (long)at, SEEK_SET) ||
                    fread(self->memory + state->at, 1, bytes, s->file) != bytes))
      return prograd_fail(self, PROGRAD_NO_FILE, what, ": cannot be read");
#endif
    if (!s->file) memcpy(self->memory + state->at, s->bytes + at, bytes);
  }
  return PROGRAD_OK;
}

static int read_bytes(prograd *self, const void *file, size_t bytes, int all) {
  prograd_source s = {.bytes = file, .size = bytes};
  return read_states(self, &s, "the file in memory", all);
}

int prograd_load_bytes(prograd *self, const void *file, size_t bytes) {
  return read_bytes(self, file, bytes, 0);
}

int prograd_open_bytes(prograd **self, const prograd_program *const *programs, const void *file,
                       size_t bytes, void *memory) {
  int error = prograd_begin(self, programs, memory);
  return error || !file ? error : read_bytes(*self, file, bytes, 1);
}

#ifndef PROGRAD_NO_FILES
static int read_file(prograd *self, const char *path, int all) {
  FILE *file = fopen(path, "rb");
  if (!file) return prograd_fail(self, PROGRAD_NO_FILE, path, ": cannot be opened");
  prograd_source s = {.file = file};
  long size = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
  int error = PROGRAD_NO_FILE;
  s.size = (uint64_t)size;
  if (size < 0 || fseek(file, 0, SEEK_SET)) prograd_fail(self, error, path, ": cannot be read");
  else error = read_states(self, &s, path, all);
  fclose(file);
  return error;
}

int prograd_open(prograd **self, const prograd_program *const *programs, const char *path,
                 void *memory) {
  int error = prograd_begin(self, programs, memory);
  return error || !path ? error : read_file(*self, path, 1);
}

int prograd_load(prograd *self, const char *path) { return read_file(self, path, 0); }

int prograd_save(prograd *self, const char *path) {
  const prograd_sizes *sizes = self->program->sizes;
  char other[1024];
  if (strlen(path) + 5 > sizeof other) return prograd_fail(self, PROGRAD_NO_FILE, path, ": too long");
  strcat(strcpy(other, path), ".new"); /* the old file stays until the new one is whole */
  FILE *file = fopen(other, "wb");
  if (!file) return prograd_fail(self, PROGRAD_NO_FILE, path, ": cannot be written");
  int whole = fwrite(self->program->header, 1, (size_t)sizes->header_bytes, file) == (size_t)sizes->header_bytes;
  for (int64_t i = 0; whole && i < sizes->states; i++) {
    const prograd_state_place *state = self->program->states + i;
    whole = fwrite(self->memory + state->at, 1, (size_t)state->bytes, file) == (size_t)state->bytes;
  }
  whole = !fclose(file) && whole && !rename(other, path);
  if (!whole) remove(other);
  return whole ? PROGRAD_OK : prograd_fail(self, PROGRAD_NO_FILE, path, ": cannot be written");
}
#endif
#endif
