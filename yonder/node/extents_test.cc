#include "yonder/node/extents.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

#include "yonder/fabric/shm/shm.h"
#include "yonder/fabric/tcp/tcp.h"

namespace yonder::node {
namespace {

constexpr TenantId kNobody{0};

class Extents : public ::testing::Test {
 protected:
  ExtentStore store(const ExtentLimits& limits = {.bytes = Bytes(1 << 20), .count = 3}) {
    return ExtentStore({shm_.get(), tcp_.get()}, limits);
  }

  std::unique_ptr<fabric::Fabric> shm_ = fabric::shm::open({}).value();
  std::unique_ptr<fabric::Fabric> tcp_ = fabric::tcp::open().value();
};

TEST_F(Extents, AreMadeOnceAndFoundByTheirName) {
  ExtentStore extents = store();
  const auto made = extents.create(kNobody, "a/b-1_2.3", 5000, 0).value();
  EXPECT_EQ(made.length, 8192u) << "whole pages";
  EXPECT_EQ(made.rights, fabric::Rights::kAll);
  EXPECT_EQ(extents.open(kNobody, "a/b-1_2.3", 0).value(), made);
  EXPECT_NE(extents.open(kNobody, "a/b-1_2.3", 1).value().key, made.key) << "another fabric's key";
  EXPECT_EQ(extents.create(kNobody, "a/b-1_2.3", 1, 0).error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(extents.open(kNobody, "a/b", 0).error(), ErrorCode::kNotFound);
  EXPECT_EQ(extents.bytes(), 8192u);
  ASSERT_EQ(extents.list().size(), 1u);
  EXPECT_EQ(extents.list()[0].name, "a/b-1_2.3");
}

TEST_F(Extents, OfTwoTenantsAreTwo) {
  ExtentStore extents = store();
  const auto mine = extents.create(TenantId(1), "table", 4096, 0).value();
  EXPECT_EQ(extents.open(TenantId(2), "table", 0).error(), ErrorCode::kNotFound);
  const auto theirs = extents.create(TenantId(2), "table", 4096, 0).value();
  EXPECT_NE(mine.key, theirs.key);
  EXPECT_EQ(extents.remove(TenantId(3), "table").error(), ErrorCode::kNotFound);
  EXPECT_TRUE(extents.remove(TenantId(2), "table"));
  EXPECT_EQ(extents.open(TenantId(1), "table", 0).value(), mine);
}

TEST_F(Extents, RefuseNamesThatAreNone) {
  ExtentStore extents = store();
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("\0", 1), std::string(65, 'x'), std::string("ä")}) {
    EXPECT_EQ(extents.create(kNobody, name, 1, 0).error(), ErrorCode::kInvalidArgument) << name;
    EXPECT_EQ(extents.open(kNobody, name, 0).error(), ErrorCode::kInvalidArgument) << name;
    EXPECT_EQ(extents.remove(kNobody, name).error(), ErrorCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(extents.create(kNobody, "empty", 0, 0).error(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(extents.create(kNobody, std::string(64, 'x'), 1, 0));
}

TEST_F(Extents, KeepToTheirLimits) {
  ExtentStore extents = store();
  EXPECT_EQ(extents.create(kNobody, "vast", UINT64_MAX, 0).error(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(extents.create(kNobody, "large", (1 << 20) + 1, 0).error(), ErrorCode::kOutOfMemory);
  EXPECT_TRUE(extents.create(kNobody, "most", 1 << 20, 0));
  EXPECT_EQ(extents.create(kNobody, "one", 1, 0).error(), ErrorCode::kOutOfMemory);
  EXPECT_TRUE(extents.remove(kNobody, "most"));
  EXPECT_EQ(extents.bytes(), 0u);
  for (const char* name : {"1", "2", "3"}) EXPECT_TRUE(extents.create(kNobody, name, 1, 0));
  EXPECT_EQ(extents.create(kNobody, "4", 1, 0).error(), ErrorCode::kResourceExhausted);
}

// What functions on the node work on: whoever has the file has the memory, for ever.
TEST_F(Extents, GiveTheirFileToWhoKnowsTheirNumber) {
  ExtentStore extents = store();
  ASSERT_TRUE(extents.create(TenantId(1), "table", 5000, 0));
  const std::uint64_t number = extents.number_of(TenantId(1), "table").value();
  const ExtentFile file = extents.file(TenantId(1), "table", number).value();
  EXPECT_EQ(file.bytes, 8192u);
  struct stat info{};
  ASSERT_EQ(::fstat(file.fd.get(), &info), 0);
  EXPECT_GE(static_cast<std::uint64_t>(info.st_size), file.bytes) << "all of it can be mapped";
  // Two files of it are one memory.
  ASSERT_EQ(::pwrite(file.fd.get(), "far", 3, 4096), 3);
  std::array<char, 3> seen{};
  ASSERT_EQ(
      ::pread(extents.file(TenantId(1), "table", number).value().fd.get(), seen.data(), seen.size(), 4096),
      3);
  EXPECT_EQ(std::string_view(seen.data(), seen.size()), "far");
}

TEST_F(Extents, AreNumberedForEverWhateverTheirNames) {
  ExtentStore extents = store();
  ASSERT_TRUE(extents.create(TenantId(1), "table", 1, 0));
  ASSERT_TRUE(extents.create(TenantId(2), "table", 1, 0));
  const std::uint64_t first = extents.number_of(TenantId(1), "table").value();
  const std::uint64_t others = extents.number_of(TenantId(2), "table").value();
  EXPECT_NE(first, others);
  EXPECT_EQ(extents.file(TenantId(1), "table", others).error(), ErrorCode::kNotFound)
      << "another tenant's number opens nothing";
  ASSERT_TRUE(extents.remove(TenantId(1), "table"));
  EXPECT_EQ(extents.number_of(TenantId(1), "table").error(), ErrorCode::kNotFound);
  EXPECT_EQ(extents.file(TenantId(1), "table", first).error(), ErrorCode::kNotFound);
  // The name is used again: whoever still has the old number must not get the new memory.
  ASSERT_TRUE(extents.create(TenantId(1), "table", 1, 0));
  const std::uint64_t second = extents.number_of(TenantId(1), "table").value();
  EXPECT_NE(second, first);
  EXPECT_NE(second, others);
  EXPECT_EQ(extents.file(TenantId(1), "table", first).error(), ErrorCode::kNotFound);
  EXPECT_TRUE(extents.file(TenantId(1), "table", second));
  EXPECT_EQ(extents.number_of(TenantId(1), "no name").error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(extents.file(TenantId(1), "no name", second).error(), ErrorCode::kInvalidArgument);
}

TEST_F(Extents, EndWithTheStore) {
  ExtentStore extents = store();
  ASSERT_TRUE(extents.create(kNobody, "a", 1, 0));
  extents.close();
  EXPECT_EQ(extents.open(kNobody, "a", 0).error(), ErrorCode::kClosed);
  EXPECT_EQ(extents.create(kNobody, "b", 1, 0).error(), ErrorCode::kClosed);
  EXPECT_EQ(extents.remove(kNobody, "a").error(), ErrorCode::kClosed);
  EXPECT_EQ(extents.number_of(kNobody, "a").error(), ErrorCode::kClosed);
  EXPECT_EQ(extents.file(kNobody, "a", 1).error(), ErrorCode::kClosed);
  EXPECT_EQ(extents.bytes(), 0u);
  EXPECT_TRUE(extents.list().empty());
}

}  // namespace
}  // namespace yonder::node
