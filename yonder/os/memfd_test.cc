#include "yonder/os/memfd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "yonder/os/mapping.h"

namespace yonder::os {
namespace {

std::size_t allocated_bytes(const Memfd& memfd) {
  struct stat status{};
  EXPECT_EQ(::fstat(memfd.fd().get(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

Mapping map_all(const Memfd& memfd) {
  return Mapping::of_file(memfd.fd(), {.bytes = memfd.size(), .protection = Protection::kReadWrite}).value();
}

TEST(Memfd, RoundsItsSizeUpAndStartsEmpty) {
  const Memfd memfd = Memfd::create({.size = 5000}).value();
  EXPECT_EQ(memfd.size(), 8192u);
  EXPECT_EQ(memfd.page_bytes(), kPageBytes);
  EXPECT_EQ(allocated_bytes(memfd), 0u);
  EXPECT_NE(::fcntl(memfd.fd().get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Memfd, RefusesNoBytesAndTooManyBytes) {
  EXPECT_EQ(Memfd::create({.size = 0}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Memfd::create({.size = std::size_t{1} << 63}).error(), ErrorCode::kOutOfMemory);
}

TEST(Memfd, TwoMappingsSeeOneMemory) {
  const Memfd memfd = Memfd::create({.size = kPageBytes}).value();
  const Mapping a = map_all(memfd);
  const Mapping b = map_all(memfd);
  a.bytes()[7] = std::byte{42};
  EXPECT_EQ(b.bytes()[7], std::byte{42});
}

TEST(Memfd, PunchedHolesGiveMemoryBackAndReadAsZero) {
  Memfd memfd = Memfd::create({.size = 4 * kPageBytes}).value();
  const Mapping mapping = map_all(memfd);
  std::memset(mapping.data(), 1, mapping.size());
  ASSERT_EQ(allocated_bytes(memfd), 4 * kPageBytes);
  ASSERT_TRUE(memfd.punch_hole(kPageBytes, 2 * kPageBytes));
  EXPECT_EQ(allocated_bytes(memfd), 2 * kPageBytes);
  EXPECT_EQ(mapping.bytes()[kPageBytes], std::byte{0});
  EXPECT_EQ(mapping.bytes()[kPageBytes - 1], std::byte{1});
}

TEST(Memfd, RefusesHolesThatAreMisalignedOrOutside) {
  Memfd memfd = Memfd::create({.size = 4 * kPageBytes}).value();
  EXPECT_EQ(memfd.punch_hole(100, kPageBytes).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(memfd.punch_hole(0, 100).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(memfd.punch_hole(0, 0).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(memfd.punch_hole(4 * kPageBytes, kPageBytes).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(memfd.punch_hole(kPageBytes, ~std::size_t{0} - kPageBytes + 1).error(),
            ErrorCode::kInvalidArgument);
}

TEST(Memfd, SealsFixTheSize) {
  Memfd memfd = Memfd::create({.size = 2 * kPageBytes}).value();
  ASSERT_TRUE(memfd.resize(4 * kPageBytes));
  ASSERT_TRUE(memfd.seal(kSealShrink | kSealGrow));
  EXPECT_EQ(memfd.seals().value(), kSealShrink | kSealGrow);
  EXPECT_EQ(memfd.resize(kPageBytes).error(), ErrorCode::kPermissionDenied);
  EXPECT_EQ(memfd.resize(8 * kPageBytes).error(), ErrorCode::kPermissionDenied);
  EXPECT_EQ(memfd.size(), 4 * kPageBytes);
}

TEST(Memfd, FutureWriteSealKeepsOldMappingsWritableAndForbidsNewOnes) {
  Memfd memfd = Memfd::create({.size = kPageBytes}).value();
  const Mapping writer = map_all(memfd);
  ASSERT_TRUE(memfd.seal(kSealFutureWrite | kSealSeal));
  writer.bytes()[0] = std::byte{9};
  EXPECT_EQ(Mapping::of_file(memfd.fd(), {.bytes = kPageBytes, .protection = Protection::kReadWrite}).error(),
            ErrorCode::kPermissionDenied);
  const Mapping reader = Mapping::of_file(memfd.fd(), {.bytes = kPageBytes}).value();
  EXPECT_EQ(reader.bytes()[0], std::byte{9});
  EXPECT_EQ(memfd.seal(kSealGrow).error(), ErrorCode::kPermissionDenied);
}

TEST(Memfd, ReadOnlyDescriptorsCannotBeMappedForWriting) {
  const Memfd memfd = Memfd::create({.size = kPageBytes}).value();
  const Fd reader = memfd.fd().reopen_read_only().value();
  EXPECT_TRUE(Mapping::of_file(reader, {.bytes = kPageBytes}).has_value());
  EXPECT_EQ(Mapping::of_file(reader, {.bytes = kPageBytes, .protection = Protection::kReadWrite}).error(),
            ErrorCode::kPermissionDenied);
}

TEST(Memfd, WithoutSealingRefusesSeals) {
  Memfd memfd = Memfd::create({.size = kPageBytes, .sealable = false}).value();
  EXPECT_EQ(memfd.seal(kSealGrow).error(), ErrorCode::kPermissionDenied);
}

TEST(Memfd, AdoptLearnsTheSizeAndRefusesOtherThings) {
  const Memfd memfd = Memfd::create({.size = 3 * kPageBytes}).value();
  const Memfd adopted = Memfd::adopt(memfd.fd().duplicate().value()).value();
  EXPECT_EQ(adopted.size(), 3 * kPageBytes);
  EXPECT_EQ(adopted.page_bytes(), kPageBytes);
  EXPECT_EQ(Memfd::adopt(Fd::open("/dev/null", O_RDWR).value()).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Memfd::adopt(Fd()).error(), ErrorCode::kOsError);
}

TEST(Memfd, TellsWhichPartsOfASparseFileHavePages) {
  const Memfd memfd = Memfd::create({.size = 64 * kPageBytes}).value();
  EXPECT_EQ(memfd.next_data(0).value().length, 0u) << "nothing was written";
  const Mapping mapping =
      Mapping::of_file(memfd.fd(), {.bytes = memfd.size(), .protection = Protection::kReadWrite}).value();
  mapping.bytes()[20 * kPageBytes] = std::byte{1};
  mapping.bytes()[21 * kPageBytes + 5] = std::byte{1};
  const Memfd::Range range = memfd.next_data(0).value();
  EXPECT_EQ(range.offset, 20 * kPageBytes);
  EXPECT_EQ(range.length, 2 * kPageBytes);
  EXPECT_EQ(memfd.next_data(range.offset + range.length).value().length, 0u);
}

// Machines have huge pages reserved or not; both answers have their contract.
TEST(Memfd, HugePagesAreThereOrTheErrorSaysWhy) {
  const Result<Memfd> huge = Memfd::create({.size = kPageBytes, .huge_pages = HugePages::kRequire});
  if (!huge) {
    EXPECT_TRUE(huge.error() == ErrorCode::kOutOfMemory || huge.error() == ErrorCode::kUnsupported)
        << huge.error();
    return;
  }
  EXPECT_EQ(huge->size(), kHugePageBytes);
  EXPECT_EQ(huge->page_bytes(), kHugePageBytes);
  const Mapping small =
      Mapping::of_file(huge->fd(), {.bytes = kPageBytes, .protection = Protection::kReadWrite}).value();
  EXPECT_EQ(small.size(), kHugePageBytes) << "the kernel maps whole huge pages, so we own and unmap them";
  small.bytes()[kHugePageBytes - 1] = std::byte{1};
  EXPECT_EQ(Memfd::adopt(huge->fd().duplicate().value()).value().page_bytes(), kHugePageBytes);
}

// The whole machine's memory in huge pages is never reserved, so this size is
// refused where huge pages exist and where they do not.
TEST(Memfd, FallsBackToSmallPagesUnlessHugeOnesAreRequired) {
  const std::size_t too_much = std::size_t{1} << 44;
  const Memfd memfd = Memfd::create({.size = too_much, .huge_pages = HugePages::kIfAvailable}).value();
  EXPECT_EQ(memfd.page_bytes(), kPageBytes);
  EXPECT_FALSE(Memfd::create({.size = too_much, .huge_pages = HugePages::kRequire}).has_value());
}

}  // namespace
}  // namespace yonder::os
