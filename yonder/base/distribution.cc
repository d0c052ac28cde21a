#include "yonder/base/distribution.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "yonder/base/check.h"

namespace yonder {
namespace {

// YCSB's scrambled generator: this many ranks whatever the item count, and their
// zeta for theta = 0.99 as its authors computed it (a plain sum, so it differs from
// ours in the last digits; theirs is what makes the numbers theirs).
constexpr std::uint64_t kScrambledRanks = 10'000'000'000;
constexpr double kScrambledTheta = 0.99;
constexpr double kScrambledZeta = 26.46902820178302;

// Terms that are added one by one before the formula takes over. With 256 the
// first neglected term of the formula is below 10^-16.
constexpr std::uint64_t kSummedTerms = 256;

double sum_of_powers(std::uint64_t first, std::uint64_t last, double theta) {
  double sum = 0;
  // Smallest first: adding small terms to a large sum would lose their digits.
  for (std::uint64_t i = last; i >= first; --i) sum += std::pow(static_cast<double>(i), -theta);
  return sum;
}

// (e^t - 1) / t and log(1 + t) / t, continued through t = 0 by their series: this is
// what makes theta = 1 no special case.
double expm1_over(double t) { return std::abs(t) > 1e-8 ? std::expm1(t) / t : 1 + t / 2 * (1 + t / 3); }
double log1p_over(double t) { return std::abs(t) > 1e-8 ? std::log1p(t) / t : 1 - t * (0.5 - t / 3); }

double power(double x, double theta) { return std::exp(-theta * std::log(x)); }

// H(x): the integral of t^-theta from 1 to x, and its inverse.
double integral(double x, double theta) {
  const double log_x = std::log(x);
  return expm1_over((1 - theta) * log_x) * log_x;
}
double inverse_integral(double area, double theta) {
  // Rounding can carry the product just below -1, where the logarithm ends.
  const double t = std::max(area * (1 - theta), -1.0);
  return std::exp(log1p_over(t) * area);
}

void check_options(const ZipfianOptions& options) {
  YONDER_CHECK(options.items > 0, "a distribution needs items");
  YONDER_CHECK(options.theta > 0 && std::isfinite(options.theta), "theta must be above 0");
}

}  // namespace

double zeta(std::uint64_t n, double theta) {
  if (n <= kSummedTerms) return n == 0 ? 0 : sum_of_powers(1, n, theta);
  // Euler-Maclaurin for the terms m..n: the integral, the mean of the two ends, and
  // corrections by the first, third and fifth derivative at the ends.
  const auto m = static_cast<double>(kSummedTerms);
  const auto last = static_cast<double>(n);
  const auto ends = [&](double exponent) { return power(m, exponent) - power(last, exponent); };
  const double area = integral(last, theta) - integral(m, theta);
  const double middle = (power(m, theta) + power(last, theta)) / 2;
  const double first = theta / 12 * ends(theta + 1);
  const double third_factor = theta * (theta + 1) * (theta + 2);
  const double third = third_factor / 720 * ends(theta + 3);
  const double fifth = third_factor * (theta + 3) * (theta + 4) / 30240 * ends(theta + 5);
  return sum_of_powers(1, kSummedTerms - 1, theta) + (area + middle + first - third + fifth);
}

std::uint64_t fnv_hash64(std::uint64_t value) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (int byte = 0; byte < 8; ++byte) {
    hash ^= value & 0xff;
    hash *= 1099511628211;
    value >>= 8;
  }
  return static_cast<std::int64_t>(hash) < 0 ? 0 - hash : hash;
}

Uniform::Uniform(std::uint64_t items) : items_(items) {
  YONDER_CHECK(items > 0, "a distribution needs items");
}

Zipfian::Zipfian(const ZipfianOptions& options) : items_(options.items), theta_(options.theta) {
  check_options(options);
  if (theta_ < 1) {
    method_ = make_gray(zeta(items_, theta_));
  } else {
    method_ = make_rejection_inversion();
  }
}

Zipfian::Zipfian(const ZipfianOptions& options, KnownZeta zeta_n)
    : items_(options.items), theta_(options.theta) {
  method_ = make_gray(zeta_n.value);
}

void Zipfian::grow(std::uint64_t items) {
  YONDER_CHECK(items >= items_, "item counts only grow");
  const std::uint64_t added = items - items_;
  const std::uint64_t old_items = std::exchange(items_, items);
  if (const Gray* gray = std::get_if<Gray>(&method_)) {
    // Beyond this many new terms the formula is cheaper than adding them.
    const bool few = added <= kSummedTerms;
    method_ =
        make_gray(few ? gray->zeta_n + sum_of_powers(old_items + 1, items, theta_) : zeta(items, theta_));
  } else {
    method_ = make_rejection_inversion();
  }
}

Zipfian::Gray Zipfian::make_gray(double zeta_n) const {
  const double second = 1 + std::pow(0.5, theta_);
  // With one or two items the branch that uses eta is never taken, and its formula is 0/0.
  const double eta =
      items_ <= 2 ? 0 : (1 - std::pow(2.0 / static_cast<double>(items_), 1 - theta_)) / (1 - second / zeta_n);
  return {.zeta_n = zeta_n, .second = second, .alpha = 1 / (1 - theta_), .eta = eta};
}

Zipfian::RejectionInversion Zipfian::make_rejection_inversion() const {
  return {.h_first = integral(1.5, theta_) - 1,
          .h_last = integral(static_cast<double>(items_) + 0.5, theta_),
          .accept = 2 - inverse_integral(integral(2.5, theta_) - power(2, theta_), theta_)};
}

std::uint64_t Zipfian::next(Prng& prng) const {
  if (const Gray* gray = std::get_if<Gray>(&method_)) return next_gray(*gray, prng);
  return next_exact(*std::get_if<RejectionInversion>(&method_), prng);
}

std::uint64_t Zipfian::next_gray(const Gray& gray, Prng& prng) const {
  const double u = prng.uniform_double();
  const double area = u * gray.zeta_n;
  if (area < 1) return 0;
  if (area < gray.second) return 1;
  const auto items = static_cast<double>(items_);
  const auto rank = static_cast<std::uint64_t>(items * std::pow(gray.eta * u - gray.eta + 1, gray.alpha));
  // Rounding up to exactly `items` needs u within 2^-53 of 1, and that u exists.
  return std::min(rank, items_ - 1);
}

std::uint64_t Zipfian::next_exact(const RejectionInversion& constants, Prng& prng) const {
  // More than half of the draws are accepted, so 128 refusals in a row (2^-128) do not
  // happen; the bound is there because no loop of ours depends on luck to end.
  constexpr int kMaxDraws = 128;
  const auto items = static_cast<double>(items_);
  double rank = 1;
  for (int draw = 0; draw < kMaxDraws; ++draw) {
    const double area = constants.h_last + prng.uniform_double() * (constants.h_first - constants.h_last);
    const double x = inverse_integral(area, theta_);
    rank = std::clamp(std::floor(x + 0.5), 1.0, items);
    if (rank - x <= constants.accept) break;
    if (area >= integral(rank + 0.5, theta_) - power(rank, theta_)) break;
  }
  return static_cast<std::uint64_t>(rank) - 1;
}

ScrambledZipfian::ScrambledZipfian(const ZipfianOptions& options)
    : ranks_(options.theta == kScrambledTheta
                 ? Zipfian({.items = kScrambledRanks, .theta = kScrambledTheta}, {.value = kScrambledZeta})
                 : Zipfian({.items = kScrambledRanks, .theta = options.theta})),
      items_(options.items) {
  check_options(options);
}

void ScrambledZipfian::grow(std::uint64_t items) {
  YONDER_CHECK(items >= items_, "item counts only grow");
  items_ = items;
}

}  // namespace yonder
