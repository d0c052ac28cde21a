#include "yonder/os/userfaultfd.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/os/process.h"
#include "yonder/os/signal.h"
#include "yonder/os/steady_clock.h"

namespace yonder::os {
namespace {

Deadline in(Duration duration) { return Deadline::at(SteadyClock::read() + duration); }
Deadline later() { return in(std::chrono::seconds(30)); }

using Page = std::array<std::byte, kPageBytes>;

Page page_of(int value) {
  Page page;
  page.fill(std::byte(value));
  return page;
}

std::span<std::byte> page_at(std::uintptr_t address) {
  return {reinterpret_cast<std::byte*>(round_down(address, kPageBytes)), kPageBytes};
}

int read_byte(const Mapping& memory, std::size_t offset) {
  return std::to_integer<int>(*const_cast<volatile std::byte*>(memory.data() + offset));
}

// Opens with these features, or skips on a kernel without them.
class UserfaultfdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Result<std::uint64_t> features = Userfaultfd::probe();
    if (!features) GTEST_SKIP() << "no userfaultfd here: " << features.error();
    features_ = *features;
  }
  bool has(std::uint64_t wanted) const { return (features_ & wanted) == wanted; }
  std::uint64_t features_ = 0;
};

TEST_F(UserfaultfdTest, AThreadServesMissingPages) {
  const Userfaultfd uffd = Userfaultfd::open({}).value();
  const Mapping memory = Mapping::anonymous({.bytes = 4 * kPageBytes}).value();
  ASSERT_TRUE(uffd.register_range(memory.bytes(), kUffdMissing));
  std::thread server([&] {
    for (int i = 0; i < 3; ++i) {
      const Fault fault = uffd.wait_fault(later()).value();
      const int number =
          static_cast<int>((fault.address - reinterpret_cast<std::uintptr_t>(memory.data())) / kPageBytes);
      const Page page = page_of(number + 10);
      ASSERT_TRUE(uffd.copy({.destination = page_at(fault.address), .source = page.data()}));
    }
  });
  EXPECT_EQ(read_byte(memory, 0), 10);
  EXPECT_EQ(read_byte(memory, 2 * kPageBytes + 99), 12);
  EXPECT_EQ(read_byte(memory, kPageBytes), 11);
  EXPECT_EQ(read_byte(memory, kPageBytes), 11);  // There now: no further fault.
  server.join();
}

TEST_F(UserfaultfdTest, ServesMissingPagesOfAMemfd) {
  ASSERT_TRUE(has(kUffdMissingShmem));
  const Userfaultfd uffd = Userfaultfd::open({.features = kUffdMissingShmem}).value();
  const Memfd memfd = Memfd::create({.size = kPageBytes}).value();
  const Mapping memory =
      Mapping::of_file(memfd.fd(), {.bytes = kPageBytes, .protection = Protection::kReadWrite}).value();
  ASSERT_TRUE(uffd.register_range(memory.bytes(), kUffdMissing));
  std::thread server([&] {
    const Fault fault = uffd.wait_fault(later()).value();
    EXPECT_TRUE(fault.write);
    const Page page = page_of(7);
    ASSERT_TRUE(uffd.copy({.destination = page_at(fault.address), .source = page.data()}));
  });
  memory.bytes()[5] = std::byte{1};
  EXPECT_EQ(read_byte(memory, 6), 7);
  server.join();
}

TEST_F(UserfaultfdTest, PagesCanBePutInBeforeAnyFault) {
  const Userfaultfd uffd = Userfaultfd::open({}).value();
  const Mapping memory = Mapping::anonymous({.bytes = 4 * kPageBytes}).value();
  ASSERT_TRUE(uffd.register_range(memory.bytes(), kUffdMissing));
  const std::vector<std::byte> two(2 * kPageBytes, std::byte{5});
  ASSERT_TRUE(
      uffd.copy({.destination = memory.bytes(0, 2 * kPageBytes), .source = two.data(), .wake = false}));
  ASSERT_TRUE(uffd.zero(memory.bytes(2 * kPageBytes, 2 * kPageBytes)));
  EXPECT_EQ(read_byte(memory, kPageBytes), 5);
  EXPECT_EQ(read_byte(memory, 3 * kPageBytes), 0);
  EXPECT_EQ(uffd.copy({.destination = memory.bytes(0, kPageBytes), .source = two.data()}).error(),
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(uffd.zero(memory.bytes(0, kPageBytes)).error(), ErrorCode::kAlreadyExists);
}

TEST_F(UserfaultfdTest, WithoutWakingTheThreadSleepsOnUntilWoken) {
  const Userfaultfd uffd = Userfaultfd::open({.features = kUffdThreadId}).value();
  const Mapping memory = Mapping::anonymous({.bytes = kPageBytes}).value();
  ASSERT_TRUE(uffd.register_range(memory.bytes(), kUffdMissing));
  std::atomic<long> reader_id{0};
  std::thread reader([&] {
    reader_id = ::syscall(SYS_gettid);
    EXPECT_EQ(read_byte(memory, 0), 3);
  });
  const Fault fault = uffd.wait_fault(later()).value();
  EXPECT_EQ(fault.thread_id, static_cast<std::uint32_t>(reader_id.load()));
  const Page page = page_of(3);
  ASSERT_TRUE(uffd.copy({.destination = memory.bytes(), .source = page.data(), .wake = false}));
  ASSERT_TRUE(uffd.wake(memory.bytes()));
  reader.join();
}

TEST_F(UserfaultfdTest, WriteProtectFaultsTellOfTheFirstWrite) {
  ASSERT_TRUE(has(kUffdWriteProtect));
  const Userfaultfd uffd = Userfaultfd::open({.features = kUffdWriteProtect}).value();
  const Mapping memory = Mapping::anonymous({.bytes = kPageBytes, .populate = true}).value();
  ASSERT_TRUE(uffd.register_range(memory.bytes(), kUffdProtected));
  ASSERT_TRUE(uffd.write_protect(memory.bytes(), true));
  std::thread server([&] {
    const Fault fault = uffd.wait_fault(later()).value();
    EXPECT_TRUE(fault.protection);
    ASSERT_TRUE(uffd.write_protect(page_at(fault.address), false));
  });
  EXPECT_EQ(read_byte(memory, 0), 0);  // Reads pass.
  memory.bytes()[0] = std::byte{9};
  server.join();
  EXPECT_EQ(read_byte(memory, 0), 9);
}

TEST_F(UserfaultfdTest, AsyncWriteProtectionLetsWritesPass) {
  constexpr std::uint64_t kFeatures = kUffdWriteProtectAsync | kUffdWriteProtectUnpopulated;
  if (!has(kFeatures)) GTEST_SKIP() << "the kernel has no WP_ASYNC";
  const Userfaultfd uffd = Userfaultfd::open({.features = kFeatures}).value();
  const Mapping memory = Mapping::anonymous({.bytes = kPageBytes}).value();
  ASSERT_TRUE(uffd.register_range(memory.bytes(), kUffdProtected));
  ASSERT_TRUE(uffd.write_protect(memory.bytes(), true));
  memory.bytes()[0] = std::byte{1};
  EXPECT_FALSE(uffd.try_next_fault().value().has_value());
}

// What the in-thread service needs, as globals: a handler has no other way to it.
const Userfaultfd* g_uffd = nullptr;
std::atomic<int> g_served{0};
bool serve_in_handler(int, siginfo_t* info, void*) noexcept {
  static const Page page = page_of(77);
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (!g_uffd->copy({.destination = page_at(address), .source = page.data()})) return false;
  ++g_served;
  return true;
}

TEST_F(UserfaultfdTest, SigbusServesTheFaultInTheFaultingThread) {
  ASSERT_TRUE(has(kUffdSigbus));
  const Userfaultfd uffd = Userfaultfd::open({.features = kUffdSigbus}).value();
  const Mapping memory = Mapping::anonymous({.bytes = 3 * kPageBytes}).value();
  ASSERT_TRUE(uffd.register_range(memory.bytes(), kUffdMissing));
  g_uffd = &uffd;
  g_served = 0;
  const SignalHook hook = SignalHook::install(SIGBUS, serve_in_handler).value();
  for (std::size_t offset = 0; offset < memory.size(); offset += 512)
    EXPECT_EQ(read_byte(memory, offset), 77);
  EXPECT_EQ(g_served, 3);
}

TEST_F(UserfaultfdTest, UnregisteredRangesFaultAsUsual) {
  const Userfaultfd uffd = Userfaultfd::open({}).value();
  const Mapping memory = Mapping::anonymous({.bytes = kPageBytes}).value();
  ASSERT_TRUE(uffd.register_range(memory.bytes(), kUffdMissing));
  ASSERT_TRUE(uffd.unregister_range(memory.bytes()));
  EXPECT_EQ(read_byte(memory, 0), 0);
  const Page page = page_of(1);
  EXPECT_EQ(uffd.copy({.destination = memory.bytes(), .source = page.data()}).error(), ErrorCode::kNotFound);
}

TEST_F(UserfaultfdTest, RefusesWhatItCannotDo) {
  const Userfaultfd uffd = Userfaultfd::open({}).value();
  const Mapping memory = Mapping::anonymous({.bytes = kPageBytes}).value();
  EXPECT_EQ(uffd.register_range(memory.bytes(1, 100), kUffdMissing).error(), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(uffd.register_range(memory.bytes(), kUffdMissing));
  const Userfaultfd other = Userfaultfd::open({}).value();
  EXPECT_EQ(other.register_range(memory.bytes(), kUffdMissing).error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(uffd.wait_fault(in(std::chrono::milliseconds(2))).error(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(Userfaultfd::open({.features = std::uint64_t{1} << 60}).error(), ErrorCode::kUnsupported);
  EXPECT_EQ(Userfaultfd::open({.features = 1u << 1}).error(), ErrorCode::kInvalidArgument);
}

TEST_F(UserfaultfdTest, WithoutPrivilegesUserModeFaultsStillWork) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to give privileges up";
  Child child = Child::fork([] {
                  if (::setresuid(65534, 65534, 65534) != 0) return 2;
                  const Result<Userfaultfd> uffd = Userfaultfd::open({});
                  if (!uffd) return 3;
                  const Result<Mapping> memory = Mapping::anonymous({.bytes = kPageBytes});
                  if (!memory || !uffd->register_range(memory->bytes(), kUffdMissing)) return 4;
                  return uffd->zero(memory->bytes()).has_value() ? 0 : 5;
                }).value();
  EXPECT_EQ(child.wait(later()).value().value, 0);
}

TEST_F(UserfaultfdTest, PagesFilledThroughAnotherMappingAreSeenOnlyOnceAdmitted) {
  constexpr std::uint64_t kWanted = kUffdMissingShmem | kUffdMinorShmem;
  if (!has(kWanted)) GTEST_SKIP() << "this kernel has no minor faults for memfds";
  const Userfaultfd uffd = Userfaultfd::open({.features = kWanted}).value();
  const Memfd file = Memfd::create({.size = 4 * kPageBytes}).value();
  const FileMappingOptions whole{.bytes = file.size(), .protection = Protection::kReadWrite};
  const Mapping seen = Mapping::of_file(file.fd(), whole).value();
  const Mapping filled = Mapping::of_file(file.fd(), whole).value();
  ASSERT_TRUE(uffd.register_range(seen.bytes(), kUffdMissing | kUffdMinor));
  std::memset(filled.data(), 7, 2 * kPageBytes);

  std::atomic<int> value{0};
  std::thread reader([&] { value = read_byte(seen, kPageBytes); });
  const Fault fault = uffd.wait_fault(later()).value();
  EXPECT_EQ(page_at(fault.address).data(), seen.data() + kPageBytes);
  EXPECT_EQ(value, 0);
  EXPECT_TRUE(uffd.admit(seen.bytes(0, 2 * kPageBytes)));
  reader.join();
  EXPECT_EQ(value, 7);
  EXPECT_EQ(uffd.admit(seen.bytes(0, kPageBytes)).error(), ErrorCode::kAlreadyExists);
  EXPECT_FALSE(uffd.admit(seen.bytes(3 * kPageBytes, kPageBytes)));  // Not in the file.
}

}  // namespace
}  // namespace yonder::os
