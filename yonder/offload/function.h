#pragma once
// What a library of offload functions includes, and all that it needs of Yonder.
//
//   struct SumOf { const std::uint64_t* values; std::uint64_t count; };
//   std::uint64_t sum(const SumOf& of) { … }       // runs on the memory node
//   YONDER_OFFLOAD_FUNCTION(sum, 1);               // "LIBRARY.sum", version 1
//
// The file LIBRARY.so goes into the directory that `yonderd --functions` names. A client
// calls "LIBRARY.sum" with the same bytes of arguments; pointers into its offload space
// (heap/offload_space.h) mean the same memory on both sides.
//
// A function is one of
//   R f(const A& arguments)                                  R: void or a value
//   void f(const A& arguments, Output& out)                  a result of any length
//   void f(std::span<const std::byte> arguments, Output& out)
// with A and R trivially copyable. It fails by throwing Failure{code}; std::bad_alloc means
// that it wants more memory than it may have. Whatever else leaves it counts as a crash of
// its own making, and ends only this call.
//
// It runs alone in its process, in one thread, without files, network and other processes:
// any system call that is not for memory, time or random numbers ends the process. It may
// keep state between calls, in ordinary globals; the process goes without notice.
//
// Concurrency: one call at a time per process; several processes may run at once.
// Lifetime: arguments and Output live as long as the call.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>

namespace yonder::offload {

// Of the binary interface below. A library of another one is refused.
inline constexpr std::uint32_t kAbi = 1;
// A call and its answer are one message each of the node's (16 KiB of data by default).
inline constexpr std::size_t kMaxArgumentBytes = 15 * 1024;
inline constexpr std::size_t kMaxResultBytes = 15 * 1024;

// Thrown by a function: the caller gets kFunctionFailed with this number.
struct Failure {
  std::int64_t code = 0;
};

// How a call went, in numbers that host, worker and library share.
enum class Verdict : std::uint32_t {
  kDone = 0,
  kFailed = 1,         // Failure; the detail is its code.
  kThrew = 2,          // Another exception.
  kBadArguments = 3,   // Not as many bytes as the function takes.
  kNoMemory = 4,       // std::bad_alloc.
  kResultTooLong = 5,  // More than kMaxResultBytes.
  kUnknown = 6,        // No such function; from the worker, as what follows.
  kWrongVersion = 7,   // The detail is the version that there is.
  kForbidden = 8,      // The detail is the number of the system call.
  kBadLibrary = 9,     // It cannot be loaded, or is of another kAbi.
  kNoPlace = 10,       // The memory cannot be mapped where the client has it.
};
inline constexpr Verdict kLastVerdict = Verdict::kNoPlace;

// One call, as the worker hands it over.
struct Frame {
  std::span<const std::byte> arguments;
  std::span<std::byte> result;  // Room for it.
  std::size_t result_bytes = 0;
  std::int64_t detail = 0;
};

// What the macro leaves in the library, under the function's name.
struct FunctionRecord {
  std::uint32_t abi;
  std::uint32_t version;
  Verdict (*invoke)(Frame& frame) noexcept;
};

// Where a function writes a result of any length.
class Output {
 public:
  explicit Output(Frame& frame) : frame_(frame) {}

  // Appends. More than kMaxResultBytes in all ends the call.
  void write(std::span<const std::byte> bytes) {
    if (bytes.size() > frame_.result.size() - frame_.result_bytes) throw TooLong{};
    if (!bytes.empty()) std::memcpy(frame_.result.data() + frame_.result_bytes, bytes.data(), bytes.size());
    frame_.result_bytes += bytes.size();
  }
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    write(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }

  struct TooLong {};

 private:
  Frame& frame_;
};

namespace internal {

template <typename A>
A arguments_of(const Frame& frame) {
  static_assert(std::is_trivially_copyable_v<A>, "arguments travel as bytes");
  A arguments;
  std::memcpy(&arguments, frame.arguments.data(), sizeof(A));
  return arguments;
}

template <typename F>
struct Invoker;

template <typename R, typename A>
struct Invoker<R (*)(const A&)> {
  static bool accepts(std::size_t bytes) { return bytes == sizeof(A); }
  static void run(R (*function)(const A&), Frame& frame) {
    const A arguments = arguments_of<A>(frame);
    if constexpr (std::is_void_v<R>) {
      function(arguments);
    } else {
      Output(frame).put(function(arguments));
    }
  }
};

template <typename A>
struct Invoker<void (*)(const A&, Output&)> {
  static bool accepts(std::size_t bytes) { return bytes == sizeof(A); }
  static void run(void (*function)(const A&, Output&), Frame& frame) {
    Output out(frame);
    function(arguments_of<A>(frame), out);
  }
};

template <>
struct Invoker<void (*)(std::span<const std::byte>, Output&)> {
  static bool accepts(std::size_t) { return true; }
  static void run(void (*function)(std::span<const std::byte>, Output&), Frame& frame) {
    Output out(frame);
    function(frame.arguments, out);
  }
};

template <auto kFunction>
Verdict invoke(Frame& frame) noexcept {
  using Invoke = Invoker<decltype(kFunction)>;
  if (!Invoke::accepts(frame.arguments.size())) return Verdict::kBadArguments;
  try {
    Invoke::run(kFunction, frame);
    return Verdict::kDone;
  } catch (const Failure& failure) {
    frame.detail = failure.code;
    return Verdict::kFailed;
  } catch (const Output::TooLong&) {
    return Verdict::kResultTooLong;
  } catch (const std::bad_alloc&) {
    return Verdict::kNoMemory;
  } catch (...) {
    return Verdict::kThrew;
  }
}

}  // namespace internal

}  // namespace yonder::offload

// NOLINTBEGIN: a macro, because the name of a symbol is made of the function's.
#define YONDER_OFFLOAD_FUNCTION(name, version)                                          \
  extern "C" {                                                                          \
  extern const ::yonder::offload::FunctionRecord yonder_offload_##name                  \
      __attribute__((visibility("default")));                                           \
  const ::yonder::offload::FunctionRecord yonder_offload_##name = {                     \
      ::yonder::offload::kAbi, (version), &::yonder::offload::internal::invoke<&name>}; \
  }                                                                                     \
  static_assert((version) > 0, "versions begin with 1")
// NOLINTEND
