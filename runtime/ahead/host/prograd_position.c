/* The position of a run as a text in JSON, both ways; see docs/format.md. */
#include "prograd_checkpoint.h"

#include <stdlib.h>
#include <string.h>

void prograd_put(prograd_sink *s, const char *text) {
  for (; *text; text++)
    for (int i = !s->escapes || (*text != '"' && *text != '\\'); i < 2; i++) {
      char c = i ? *text : '\\';
      if (s->to && s->count + 1 < s->room) s->to[s->count] = c, s->to[s->count + 1] = 0;
      if (s->file) putc(c, s->file);
      s->count++;
    }
}

void prograd_put_count(prograd_sink *s, int64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)number);
  prograd_put(s, text);
}

/* Put a name as JSON has it: in quotes, in ASCII. */
void prograd_put_name(prograd_sink *s, const char *prefix, const char *name) {
  prograd_put(s, "\"");
  prograd_put(s, prefix);
  for (const unsigned char *at = (const unsigned char *)name; *at;) {
    char text[16] = {(char)*at};
    uint32_t code = *at++;
    int more = code < 0xC0 ? 0 : code < 0xE0 ? 1 : code < 0xF0 ? 2 : 3;
    if (more) code &= 0x3Fu >> more;
    for (; more && *at >> 6 == 2; more--) code = code << 6 | (*at++ & 63);
    if (code == '"' || code == '\\') snprintf(text, sizeof text, "\\%c", (int)code);
    if (code < ' ' || (code > '~' && code < 0x10000)) snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
    if (code >= 0x10000)
      snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD7C0u + (unsigned)(code >> 10),
               0xDC00u + (unsigned)(code & 1023));
    prograd_put(s, text);
  }
  prograd_put(s, "\"");
}

/* Put a number as Python does: with the fewest digits that stand for it. */
static void put_number(prograd_sink *s, double value, int is_count) {
  char text[40], digits[24];
  int exponent = 0, count = 0;
  if (value - value != 0) {
    prograd_put(s, value != value ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"");
    return;
  }
  if (is_count) {
    prograd_put_count(s, (int64_t)value);
    return;
  }
  for (int precision = 0; precision < 17; precision++) {
    snprintf(text, sizeof text, "%.*e", precision, value);
    if (strtod(text, NULL) == value) break;
  }
  for (char *at = text; *at != 'e'; at++)
    if (*at >= '0' && *at <= '9') digits[count++] = *at;
  exponent = atoi(strchr(text, 'e') + 1);
  if (*text == '-') prograd_put(s, "-");
  if (exponent < -4 || exponent >= 16) {
    snprintf(text, sizeof text, count > 1 ? "%c.%.*se%s%02d" : "%c%.*se%s%02d", digits[0], count - 1, digits + 1,
             exponent < 0 ? "-" : "+", abs(exponent));
    prograd_put(s, text);
    return;
  }
  for (int i = exponent < 0 ? exponent : 0, point = exponent + 1; i < count || i < point + 1; i++) {
    char digit[3] = {i == point ? '.' : 0};
    digit[strlen(digit)] = (char)(i < 0 || i >= count ? '0' : digits[i]);
    prograd_put(s, digit);
  }
}

static void put_metrics(prograd_sink *s, const prograd *self, int64_t number, const double *values, int64_t are_there) {
  const prograd_entry *entry = self->program->entries + number;
  const prograd_place *fetch = self->program->places + entry->fetches;
  const char *between = "[";
  prograd_put(s, "[");
  for (int64_t i = 0; are_there && i < entry->fetch_count; i++) {
    if (fetch[i].over == PROGRAD_TABLE) continue;
    int is_float = fetch[i].widened || fetch[i].kind == PROGRAD_FLOAT || fetch[i].kind == PROGRAD_DOUBLE;
    prograd_put(s, between), prograd_put_name(s, "", prograd_text(self, fetch[i].name)), prograd_put(s, ",");
    put_number(s, values[i], !is_float && fetch[i].over != PROGRAD_MEAN);
    prograd_put(s, "]"), between = ",[";
  }
  prograd_put(s, "]");
}

static void put_field(prograd_sink *s, const char *key, int64_t value) {
  prograd_put(s, key), prograd_put_count(s, value);
}

static void put_watches(prograd_sink *s, const prograd_course *course) {
  const int64_t *names = course->self->program->numbers + course->run->watches;
  const char *between = ",\"watches\":{";
  for (int64_t i = 0; i < course->run->watch_count; i++) {
    const prograd_watch *watch = course->watches + i;
    if (!watch->exists) continue;
    prograd_put(s, between), prograd_put_name(s, "", prograd_text(course->self, names[i])), prograd_put(s, ":[");
    if (watch->has_best) put_number(s, watch->best, 0);
    else prograd_put(s, "null");
    put_field(s, ",", watch->wait), put_field(s, ",", watch->cooldown), prograd_put(s, "]");
    between = ",";
  }
  prograd_put(s, *between == ',' && between[1] ? "" : "}");
}

void prograd_put_position(prograd_sink *s, const prograd_course *course) {
  const prograd_position *p = &course->position;
  const prograd *self = course->self;
  int64_t train = course->run->train, evaluate = course->run->evaluate;
  put_field(s, "{\"best_at\":[", p->best_at[0]), put_field(s, ",", p->best_at[1]), put_field(s, ",", p->best_at[2]);
  prograd_put(s, "],\"best_evaluation\":"), put_metrics(s, self, evaluate, p->best_evaluation, p->has_best_evaluation);
  prograd_put(s, ",\"best_metric\":");
  if (p->has_best) put_number(s, p->best_metric, 0);
  else prograd_put(s, "null");
  put_field(s, ",\"closed\":", p->closed), put_field(s, ",\"epoch\":", p->epoch);
  prograd_put(s, ",\"evaluation\":"), put_metrics(s, self, evaluate, p->evaluation, p->has_evaluation);
  prograd_put(s, prograd_text(self, course->run->judged_by));
  prograd_put(s, ",\"metrics\":"), put_metrics(s, self, train, p->metrics, p->has_metrics);
  put_field(s, ",\"rows\":", p->rows), prograd_put(s, ",\"rows_sha256\":{");
  if (course->evaluated)
    prograd_put(s, "\"evaluate\":\""), prograd_put(s, course->evaluated_sha256), prograd_put(s, "\",");
  prograd_put(s, "\"train\":\""), prograd_put(s, course->train_sha256), prograd_put(s, "\"}");
  put_field(s, ",\"stale\":", p->stale), put_field(s, ",\"step\":", p->step), put_field(s, ",\"steps\":", p->steps);
  prograd_put(s, p->stopped ? ",\"stopped\":true" : ",\"stopped\":false");
  put_field(s, ",\"summed_rows\":", p->summed_rows);
  prograd_put(s, ",\"sums\":"), put_metrics(s, self, train, p->sums, p->summed_rows);
  for (int64_t i = 0; i < p->ranked; i++) {
    prograd_put(s, i ? ",[" : ",\"top\":[["), put_number(s, course->top[i].value, 0);
    put_field(s, ",", course->top[i].steps), prograd_put(s, i + 1 < p->ranked ? "]" : "]]");
  }
  put_watches(s, course), prograd_put(s, "}");
}

/* The description that is read: JSON without blanks. All these return NULL behind a fault. */
static const char *past_text(const char *at) {
  if (!at || *at++ != '"') return NULL;
  for (; *at && *at != '"'; at++)
    if (*at == '\\' && !*++at) return NULL;
  return *at ? at + 1 : NULL;
}

static const char *past_value(const char *at) {
  int64_t depth = 0;
  do {
    if (!at || !*at) return NULL;
    if (*at == '"') at = past_text(at);
    else {
      depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
      at++;
    }
  } while (depth > 0 || (at && *at && !strchr(",}]", *at)));
  return at && *at ? at : NULL;
}

/* Return the value of a key of an object. */
const char *prograd_value_of(const char *object, const char *key) {
  size_t bytes = strlen(key);
  if (!object || *object != '{') return NULL;
  for (const char *at = object + 1; at && *at == '"';) {
    const char *end = past_text(at);
    if (!end || *end != ':') return NULL;
    if ((size_t)(end - at) == bytes + 2 && !memcmp(at + 1, key, bytes)) return end + 1;
    at = past_value(end + 1);
    if (!at || *at++ != ',') return NULL;
  }
  return NULL;
}

static const char *count_at(const char *at, int64_t *to) {
  if (!at || *at < '0' || *at > '9') return NULL;
  for (*to = 0; *at >= '0' && *at <= '9' && *to < INT64_MAX / 16; at++) *to = 10 * *to + *at - '0';
  return *at >= '0' && *at <= '9' ? NULL : at;
}

static const char *number_at(const char *at, double *to) {
  static const char *const words[] = {"\"nan\"", "\"inf\"", "\"-inf\""}, *const values[] = {"nan", "inf", "-inf"};
  char text[48], point[8], *end;
  if (!at) return NULL;
  for (int i = 0; i < 3; i++)
    if (!strncmp(at, words[i], strlen(words[i]))) return *to = strtod(values[i], NULL), at + strlen(words[i]);
  size_t bytes = strspn(at, "+-.0123456789eE");
  if (!bytes || bytes >= sizeof text) return NULL;
  snprintf(point, sizeof point, "%.1f", 0.5); /* strtod reads the point of the locale */
  memcpy(text, at, bytes);
  text[bytes] = 0;
  char *dot = strchr(text, '.');
  if (dot) *dot = point[1];
  *to = strtod(text, &end);
  return *end ? NULL : at + bytes;
}

static int is_field(const char *position, const char *key, int64_t *to) {
  return count_at(prograd_value_of(position, key), to) != NULL;
}

/* Read a list of names and numbers, which is empty or has those of an entry; return False for another one. */
static int are_metrics(const prograd *self, const char *at, int64_t number, double *to, int64_t *are_there) {
  const prograd_entry *entry = self->program->entries + number;
  const prograd_place *fetch = self->program->places + entry->fetches;
  char opened = '[';
  *are_there = at && !strncmp(at, "[[", 2);
  if (!*are_there) return at && !strncmp(at, "[]", 2);
  for (int64_t i = 0; i < entry->fetch_count; i++) {
    char name[256];
    prograd_sink s = {.to = name, .room = sizeof name};
    if (fetch[i].over == PROGRAD_TABLE) continue;
    prograd_put_name(&s, "", prograd_text(self, fetch[i].name));
    if (*at != opened || at[1] != '[' || strncmp(at + 2, name, strlen(name)) || at[2 + strlen(name)] != ',') return 0;
    at = number_at(at + 3 + strlen(name), to + i);
    if (!at || *at++ != ']') return 0;
    opened = ',';
  }
  return *at == ']';
}

static int are_watches(prograd_course *course, const char *watches) {
  const int64_t *names = course->self->program->numbers + course->run->watches;
  for (int64_t i = 0; watches && i < course->run->watch_count; i++) {
    prograd_watch *watch = course->watches + i;
    const char *at = prograd_value_of(watches, prograd_text(course->self, names[i]));
    if (!at) continue;
    watch->exists = 1, watch->has_best = strncmp(at, "[null", 5) != 0;
    at = *at != '[' ? NULL : watch->has_best ? number_at(at + 1, &watch->best) : at + 5;
    at = at && *at == ',' ? count_at(at + 1, &watch->wait) : NULL;
    at = at && *at == ',' ? count_at(at + 1, &watch->cooldown) : NULL;
    if (!at || *at != ']') return 0;
  }
  return 1;
}

static int are_ranked(prograd_course *course, const char *at) {
  prograd_position *p = &course->position;
  for (p->ranked = 0; at && (p->ranked ? *at == ',' : *at == '['); p->ranked++) {
    if (p->ranked == course->run->best_checkpoints || at[1] != '[') return 0;
    at = number_at(at + 2, &course->top[p->ranked].value);
    at = at && *at == ',' ? count_at(at + 1, &course->top[p->ranked].steps) : NULL;
    if (!at || *at++ != ']') return 0;
  }
  return !at || *at == ']';
}

/* Read the position of a description; return False unless this run can have it. */
int prograd_is_position(prograd_course *course, const char *position) {
  prograd_position *p = &course->position;
  const prograd *self = course->self;
  int64_t train = course->run->train, evaluate = course->run->evaluate, has_sums = 0, per_epoch = course->per_epoch;
  const char *best = prograd_value_of(position, "best_metric"), *at = prograd_value_of(position, "best_at");
  const char *stopped = prograd_value_of(position, "stopped");
  if (prograd_value_of(position, "cursor") || prograd_value_of(position, "plan_start")) return 0;
  if (!best || !at || !stopped) return 0;
  p->stopped = *stopped == 't';
  p->has_best = strncmp(best, "null", 4) != 0;
  if (p->has_best && !number_at(best, &p->best_metric)) return 0;
  for (int i = 0; i < 3; i++)
    if (*at != (i ? ',' : '[') || !(at = count_at(at + 1, p->best_at + i))) return 0;
  return is_field(position, "epoch", &p->epoch) && is_field(position, "step", &p->step) &&
         is_field(position, "steps", &p->steps) && is_field(position, "closed", &p->closed) &&
         is_field(position, "rows", &p->rows) && is_field(position, "summed_rows", &p->summed_rows) &&
         is_field(position, "stale", &p->stale) &&
         are_metrics(self, prograd_value_of(position, "sums"), train, p->sums, &has_sums) &&
         are_metrics(self, prograd_value_of(position, "metrics"), train, p->metrics, &p->has_metrics) &&
         are_metrics(self, prograd_value_of(position, "evaluation"), evaluate, p->evaluation, &p->has_evaluation) &&
         are_metrics(self, prograd_value_of(position, "best_evaluation"), evaluate, p->best_evaluation,
                     &p->has_best_evaluation) &&
         are_watches(course, prograd_value_of(position, "watches")) &&
         are_ranked(course, prograd_value_of(position, "top")) &&
         p->epoch < INT32_MAX && p->best_at[0] < INT32_MAX && p->step <= per_epoch && p->closed <= p->steps &&
         p->epoch * per_epoch + p->step == p->steps && p->best_at[0] * per_epoch + p->best_at[1] == p->best_at[2] &&
         p->best_at[2] <= p->steps && (has_sums || !p->summed_rows);
}
