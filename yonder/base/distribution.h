#pragma once
// Which item the next request is for: uniform, Zipfian, scrambled Zipfian, latest.
//
// Items are numbered from 0. All four draw from a Prng that the caller owns, so
// one seed repeats a workload. Zipf's law with exponent theta gives rank r (from
// 1) a share proportional to r^-theta; YCSB's default is 0.99, measured caches
// lie between 0 and 2.7.
//
//   ScrambledZipfian keys({.items = 1'000'000});
//   std::uint64_t key = keys.next(prng);
//
// Concurrency: one thread at a time per object, as for the Prng. next() of
// Uniform, Zipfian and ScrambledZipfian is const, so threads may share one as
// long as nobody grows it.

#include <cstdint>
#include <variant>

#include "yonder/base/prng.h"

namespace yonder {

// The sum of i^-theta over i = 1..n, to about 15 digits whatever n is: the first
// terms are added, the rest is the Euler-Maclaurin formula. Ten billion items cost
// as much as a thousand.
double zeta(std::uint64_t n, double theta);

// YCSB's hash of a number, in [0, 2^63]. Bit for bit its fnvhash64, including
// that the absolute value of the most negative number is 2^63.
std::uint64_t fnv_hash64(std::uint64_t value);

// Every item with the same probability.
class Uniform {
 public:
  explicit Uniform(std::uint64_t items);  // Requires items > 0.
  std::uint64_t next(Prng& prng) const { return prng.below(items_); }
  std::uint64_t items() const { return items_; }

 private:
  std::uint64_t items_;
};

struct ZipfianOptions {
  std::uint64_t items = 1;  // At least 1.
  double theta = 0.99;      // Any number above 0.
};

// Item 0 is the hottest, item 1 the next. For theta < 1 the numbers are YCSB's
// (Gray et al., SIGMOD 1994): exact for the first two ranks, a close approximation
// after them. Gray's formula does not exist at 1 and is wrong above, so there the
// draw is by rejection-inversion (Hörmann and Derflinger, 1996), which is exact.
class Zipfian {
 public:
  explicit Zipfian(const ZipfianOptions& options);

  std::uint64_t next(Prng& prng) const;

  // From now on there are `items`. Requires items >= items(). Adding one item
  // costs a few calls of pow, not a new sum over all.
  void grow(std::uint64_t items);

  std::uint64_t items() const { return items_; }
  double theta() const { return theta_; }

 private:
  friend class ScrambledZipfian;

  struct Gray {
    double zeta_n;  // Carried along when the item count grows.
    double second;  // Where rank 2 ends, in units of zeta_n: 1 + 2^-theta.
    double alpha;
    double eta;
  };
  // H is the integral of x^-theta; the names are those of the paper.
  struct RejectionInversion {
    double h_first;  // H(1.5) - 1
    double h_last;   // H(items + 0.5)
    double accept;   // Within this distance of an integer no test is needed.
  };
  struct KnownZeta {
    double value;
  };

  Zipfian(const ZipfianOptions& options, KnownZeta zeta_n);

  Gray make_gray(double zeta_n) const;
  RejectionInversion make_rejection_inversion() const;
  std::uint64_t next_gray(const Gray& gray, Prng& prng) const;
  std::uint64_t next_exact(const RejectionInversion& constants, Prng& prng) const;

  std::uint64_t items_;
  double theta_;
  std::variant<Gray, RejectionInversion> method_;
};

// YCSB's "zipfian" request distribution: the hot items lie scattered over the key
// space. A Zipfian over ten billion ranks, hashed onto the items, so the shares
// do not depend on the number of items and several ranks can meet in one item.
class ScrambledZipfian {
 public:
  explicit ScrambledZipfian(const ZipfianOptions& options);

  std::uint64_t next(Prng& prng) const { return fnv_hash64(ranks_.next(prng)) % items_; }

  // From now on there are `items`. This moves the hot items, as it does in YCSB:
  // a growing workload starts with the number it will reach.
  void grow(std::uint64_t items);

  std::uint64_t items() const { return items_; }

 private:
  Zipfian ranks_;
  std::uint64_t items_;
};

// YCSB's "latest": the newest item is the hottest. Item items() - 1 is the newest.
class Latest {
 public:
  explicit Latest(const ZipfianOptions& options) : age_(options) {}

  std::uint64_t next(Prng& prng) const { return age_.items() - 1 - age_.next(prng); }

  // Items were added: the newest of them is the hottest now. Requires items >= items().
  void grow(std::uint64_t items) { age_.grow(items); }

  std::uint64_t items() const { return age_.items(); }

 private:
  Zipfian age_;
};

}  // namespace yonder
