#pragma once
// The methods that the tests call.
//
// Concurrency: values.

#include <cstddef>
#include <cstdint>
#include <string>

#include "yonder/rpc/message.h"

namespace yonder::rpc::suite {

struct Number {
  static constexpr bool kPlain = true;
  std::uint64_t value = 0;
};

// Answers with what it was given.
struct Echo {
  static constexpr MethodId kMethod{1};
  using Request = Number;
  using Response = Number;
};

// A string, repeated.
struct Text {
  static constexpr std::size_t kMaxText = 60'000;
  static constexpr std::size_t kMaxBytes = 4 + kMaxText + 4;
  std::string text;
  std::uint32_t times = 1;
  void encode(Writer& out) const {
    out.string(text, kMaxText);
    out.put(times);
  }
  void decode(Reader& in) {
    text = in.string(kMaxText);
    times = in.get<std::uint32_t>();
  }
};
struct Repeat {
  static constexpr MethodId kMethod{2};
  using Request = Text;
  using Response = Text;
};

// Answers with the error code it was given; a request of 0 makes the handler throw.
struct Fail {
  static constexpr MethodId kMethod{3};
  using Request = Number;
  using Response = Empty;
};

// The handler keeps the responder; the test answers, or drops it.
struct Later {
  static constexpr MethodId kMethod{4};
  using Request = Number;
  using Response = Number;
};

// Answers with tenant << 32 | epoch of its context.
struct WhoAmI {
  static constexpr MethodId kMethod{5};
  using Request = Empty;
  using Response = Number;
};

// Runs on a worker; waits until the test opens a gate, if it asks for that.
struct Slow {
  static constexpr MethodId kMethod{6};
  using Request = Number;  // 1: wait for the gate
  using Response = Number;
};

// Registered by nobody.
struct Unknown {
  static constexpr MethodId kMethod{999};
  using Request = Empty;
  using Response = Empty;
};

// The number of Echo, but another message: what a client of another version sends.
struct BadEcho {
  static constexpr MethodId kMethod{1};
  using Request = Text;
  using Response = Number;
};

}  // namespace yonder::rpc::suite
