#include "yonder/offload/function.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/offload/function_name.h"
#include "yonder/offload/host.h"
#include "yonder/offload/internal/messages.h"
#include "yonder/offload/internal/outcomes.h"
#include "yonder/testing/seed.h"

namespace yonder::offload {
namespace {

struct Two {
  std::int64_t a;
  std::int64_t b;
};
std::int64_t quotient(const Two& of) {
  if (of.b == 0) throw Failure{.code = 42};
  return of.a / of.b;
}
void letters(const std::int64_t& count, Output& out) {
  for (std::int64_t i = 0; i < count; ++i) out.put('x');
}
void reversed(std::span<const std::byte> arguments, Output& out) {
  for (std::size_t i = arguments.size(); i-- > 0;) out.put(arguments[i]);
}
void hungry(const int&) { throw std::bad_alloc(); }
void broken(const int&) { throw std::runtime_error("no"); }

YONDER_OFFLOAD_FUNCTION(quotient, 7);

struct Ran {
  Verdict verdict;
  std::int64_t detail;
  std::string result;
};
template <auto kFunction>
Ran run(std::span<const std::byte> arguments) {
  std::vector<std::byte> room(kMaxResultBytes);
  Frame frame{.arguments = arguments, .result = room};
  const Verdict verdict = internal::invoke<kFunction>(frame);
  return {verdict, frame.detail, {reinterpret_cast<const char*>(room.data()), frame.result_bytes}};
}
template <auto kFunction, typename A>
Ran run(const A& arguments) {
  return run<kFunction>(std::as_bytes(std::span(&arguments, 1)));
}

TEST(OffloadFunction, GetsItsArgumentsAndGivesItsResult) {
  const Ran ran = run<&quotient>(Two{.a = 84, .b = 2});
  ASSERT_EQ(ran.verdict, Verdict::kDone);
  std::int64_t result = 0;
  ASSERT_EQ(ran.result.size(), sizeof result);
  std::memcpy(&result, ran.result.data(), sizeof result);
  EXPECT_EQ(result, 42);
  EXPECT_EQ(yonder_offload_quotient.version, 7u);
  EXPECT_EQ(yonder_offload_quotient.abi, kAbi);
}

TEST(OffloadFunction, FailsWithItsOwnNumber) {
  const Ran ran = run<&quotient>(Two{.a = 84, .b = 0});
  EXPECT_EQ(ran.verdict, Verdict::kFailed);
  EXPECT_EQ(ran.detail, 42);
}

TEST(OffloadFunction, RefusesArgumentsOfAnotherLength) {
  EXPECT_EQ(run<&quotient>(std::int32_t{3}).verdict, Verdict::kBadArguments);
  EXPECT_EQ(run<&quotient>(std::span<const std::byte>()).verdict, Verdict::kBadArguments);
}

TEST(OffloadFunction, ResultsMayHaveAnyLengthUpToTheLimit) {
  EXPECT_EQ(run<&letters>(std::int64_t{3}).result, "xxx");
  EXPECT_EQ(run<&letters>(static_cast<std::int64_t>(kMaxResultBytes)).verdict, Verdict::kDone);
  EXPECT_EQ(run<&letters>(static_cast<std::int64_t>(kMaxResultBytes) + 1).verdict, Verdict::kResultTooLong);
  EXPECT_EQ(run<&reversed>(std::as_bytes(std::span("abc", 3))).result, "cba");
}

TEST(OffloadFunction, ExceptionsAreVerdicts) {
  EXPECT_EQ(run<&hungry>(0).verdict, Verdict::kNoMemory);
  EXPECT_EQ(run<&broken>(0).verdict, Verdict::kThrew);
}

TEST(OffloadFunctionName, HasTwoParts) {
  const auto name = FunctionName::parse("data_frame2.Copy_1");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->library, "data_frame2");
  EXPECT_EQ(name->function, "Copy_1");
  EXPECT_EQ(name->file(), "data_frame2.so");
}

TEST(OffloadFunctionName, CannotLeadOutOfTheDirectory) {
  const std::string longest(kMaxNamePart, 'a');
  EXPECT_TRUE(FunctionName::parse(longest + "." + longest));
  for (const std::string& name :
       {std::string(), std::string("copy"), std::string("."), std::string("a."), std::string(".a"),
        std::string("../a.b"), std::string("a/b.c"), std::string("/etc/x.f"), std::string("a.b.c"),
        std::string("a.b/c"), std::string("a\0b.c", 5), std::string("\xc3\xa4.b"), std::string("a b.c"),
        longest + "a.b", "a." + longest + "b"}) {
    EXPECT_EQ(FunctionName::parse(name).error(), ErrorCode::kInvalidArgument) << name;
  }
}

TEST(OffloadMessages, ARepliesBytesAreNeverBelieved) {
  Prng random(::yonder::testing::test_seed());
  std::vector<std::byte> bytes(internal::kMaxReplyMessage + 64);
  int good = 0;
  for (int step = 0; step < 20'000; ++step) {
    internal::ReplyMessage head{.number = random(),
                                .verdict = static_cast<std::uint32_t>(random.below(14)),
                                .result_bytes = static_cast<std::uint32_t>(random.below(64)),
                                .detail = 1};
    if (random.below(8) == 0) head.result_bytes = static_cast<std::uint32_t>(random());
    std::memcpy(bytes.data(), &head, sizeof head);
    const std::size_t length =
        random.below(2) == 0 ? sizeof head + random.below(64) : random.below(bytes.size());
    const auto reply = internal::parse_reply(std::span(bytes).first(length));
    const bool expected = length >= sizeof head && length - sizeof head == head.result_bytes &&
                          length <= internal::kMaxReplyMessage &&
                          head.verdict <= static_cast<std::uint32_t>(kLastVerdict);
    ASSERT_EQ(reply.has_value(), expected) << length;
    if (!reply) continue;
    ++good;
    EXPECT_EQ(reply->result.size(), head.result_bytes);
  }
  EXPECT_GT(good, 0);
}

TEST(OffloadOutcomes, EveryVerdictIsAnErrorOfItsOwnKind) {
  for (std::uint32_t i = 1; i <= static_cast<std::uint32_t>(kLastVerdict); ++i)
    EXPECT_NE(internal::error_of(static_cast<Verdict>(i), 3).code(), ErrorCode::kOk) << i;
  EXPECT_EQ(internal::error_of(os::ExitStatus{.signalled = true, .value = 11}).detail(), 11);
  EXPECT_EQ(internal::error_of(os::ExitStatus{.signalled = false, .value = 3}), ErrorCode::kFunctionCrashed);
  EXPECT_EQ(internal::error_of(os::ExitStatus{.signalled = true, .value = 31}),
            ErrorCode::kFunctionForbidden);
}

TEST(OffloadHost, WantsADirectoryAndAProgram) {
  EXPECT_EQ(Host::create({.directory = "/nowhere/at/all", .program = "/bin/true"}).error(),
            ErrorCode::kNotFound);
  EXPECT_EQ(Host::create({.directory = "/", .program = "/nowhere/at/all"}).error(), ErrorCode::kNotFound);
  EXPECT_EQ(Host::create({.directory = "/", .program = "/bin/true", .max_workers = 0}).error(),
            ErrorCode::kInvalidArgument);
}

TEST(OffloadHost, RefusesHostileRequestsAtOnce) {
  auto host = Host::create({.directory = "/", .program = "/bin/true"}).value();
  const auto code_of = [&](CallRequest request) {
    ErrorCode code = ErrorCode::kOk;
    request.open_memory = []() -> Result<MemoryFile> { return fail(ErrorCode::kNotFound, "none"); };
    host->call(std::move(request), [&](const Outcome& outcome) { code = outcome.code; });
    return code;
  };
  EXPECT_EQ(code_of({.function = "../x.f", .memory = "m", .address = 4096}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.function = "x.f", .memory = "m", .address = 4097}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.function = "x.f", .memory = "m", .address = 0}), ErrorCode::kInvalidArgument);
  const std::vector<std::byte> much(kMaxArgumentBytes + 1);
  EXPECT_EQ(code_of({.function = "x.f", .memory = "m", .address = 4096, .arguments = much}),
            ErrorCode::kInvalidArgument);
  host->stop();
  EXPECT_EQ(code_of({.function = "x.f", .memory = "m", .address = 4096}), ErrorCode::kStopping);
}

}  // namespace
}  // namespace yonder::offload
