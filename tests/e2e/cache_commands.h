#pragma once
// Random commands for two cache servers at once, and the comparison of their replies.
//
// The two count CAS numbers each in its own way, so a command that names one is written
// twice, with the number each server gave for the same version of the same key; and replies
// are compared with those numbers mapped onto each other. Times are allowed to differ by
// the second in which the two clocks tick. What else is not compared stands in
// normalised(); everything that is not named there is compared byte for byte.
//
// Concurrency: one thread. Lifetime: values.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yonder/base/prng.h"

namespace yonder::e2e {

// The same command for both servers.
struct TwinCommand {
  std::string first;
  std::string second;
  std::string key;      // Whose CAS numbers the reply may contain.
  bool padded = false;  // May leave a server waiting for bytes of a value.
  void append(std::string_view text) {
    first.append(text);
    second.append(text);
  }
};

// Which number of the second server stands for which of the first, key by key.
class CasTwins {
 public:
  // False if one of them is known to stand for another. An empty key: any two match.
  bool match(const std::string& key, std::uint64_t first, std::uint64_t second);
  // A pair that was seen, newest most often; if none was, a number that is no item's.
  std::pair<std::uint64_t, std::uint64_t> draw(const std::string& key, Prng& prng) const;

 private:
  struct Pairs {
    std::map<std::uint64_t, std::uint64_t> by_first;
    std::map<std::uint64_t, std::uint64_t> by_second;
  };
  std::map<std::string, Pairs> keys_;
};

class CommandSource {
 public:
  CommandSource(std::uint64_t seed, const CasTwins& twins) : prng_(seed), twins_(twins) {}

  // One command, sometimes wrong.
  TwinCommand next();
  // Several at once, of those whose replies do not depend on when the ones before were sent.
  TwinCommand batch();

 private:
  TwinCommand storage();
  TwinCommand retrieval();
  TwinCommand arithmetic();
  TwinCommand other();
  TwinCommand meta_get();
  TwinCommand meta_set();
  TwinCommand meta_delete();
  TwinCommand meta_arithmetic();
  TwinCommand administration();
  TwinCommand binary_key();
  TwinCommand wrong();
  TwinCommand garbage();

  const std::string& key();
  std::string value(bool may_be_number = true);
  std::string exptime();
  std::string noreply() { return prng_.chance(0.1) ? " noreply" : ""; }
  template <typename T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[prng_.below(choices.size())];
  }
  // A random selection of `flags`, each once, in random order.
  void append_flags(TwinCommand& command, std::vector<std::string> flags, double chance);

  Prng prng_;
  const CasTwins& twins_;
  std::string key_;
};

// Whether two replies to the same command are the same; if not, why. `twins` learns.
bool same_reply(const std::string& key, std::string_view first, std::string_view second, CasTwins& twins,
                std::string& why);

}  // namespace yonder::e2e
