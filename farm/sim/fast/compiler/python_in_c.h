/* Python's arithmetic in C. The translator writes calls of these functions. */
#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Where Python would raise, the entry that is running returns -1. */
static _Thread_local jmp_buf entry_point;

static _Noreturn __attribute__((cold, noinline)) void fail(void) { _longjmp(entry_point, 1); }

/* An index that is in its array. */
static inline int64_t in_array(int64_t index, int64_t length) {
#ifdef CHECK_INDICES
  if (UNLIKELY((uint64_t)index >= (uint64_t)length)) fail();
#endif
  (void)length;
  return index;
}

/* Quotients of integers are rounded down, so a rest has the sign of the divisor. Divisors of 0
   and -1 have no remainder that a processor could compute for all numbers. */
static inline int64_t floor_division(int64_t a, int64_t b) {
  if (UNLIKELY((uint64_t)b + 1 <= 1)) {
    if (b == 0) fail();
    return -a;
  }
  int64_t quotient = a / b, rest = a % b;
  return quotient - (rest != 0 && (rest < 0) != (b < 0));
}

static inline int64_t modulo(int64_t a, int64_t b) {
  if (UNLIKELY((uint64_t)b + 1 <= 1)) {
    if (b == 0) fail();
    return 0;
  }
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static inline double true_division(double a, double b) {
  if (UNLIKELY(b == 0.0)) fail();
  return a / b;
}

static inline double float_modulo(double a, double b) {
  if (UNLIKELY(b == 0.0)) fail();
  double rest = fmod(a, b);
  if (rest == 0.0) return copysign(0.0, b);
  return (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}

static inline double float_floor_division(double a, double b) {
  if (UNLIKELY(b == 0.0)) fail();
  double rest = fmod(a, b), quotient = (a - rest) / b;
  if (rest != 0.0 && (rest < 0.0) != (b < 0.0)) quotient -= 1.0;
  if (quotient == 0.0) return copysign(0.0, a / b);
  double whole = floor(quotient); /* the quotient is whole but for rounding */
  return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

/* Of a number that is no integer of 64 bits, there is none. */
static inline int64_t integer(double number) {
  if (UNLIKELY(!(number >= -0x1p63 && number < 0x1p63))) fail();
  return (int64_t)number;
}

/* The first of two that are equal, or of which one is not a number. */
static inline int64_t min_integer(int64_t a, int64_t b) { return b < a ? b : a; }
static inline int64_t max_integer(int64_t a, int64_t b) { return b > a ? b : a; }
static inline double min_float(double a, double b) { return b < a ? b : a; }
static inline double max_float(double a, double b) { return b > a ? b : a; }
static inline int64_t absolute(int64_t a) { return a < 0 ? -a : a; }
