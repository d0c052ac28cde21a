// Extents: memory of the node that clients use as they like.
#include <array>
#include <cstring>

#include "yonder/client/extent_session.h"
#include "yonder/client/suite/bed.h"
#include "yonder/testing/patience.h"

namespace yonder::client::suite {
namespace {

using fabric::LocalPiece;

// Sessions share the scheduler of virtual time, if there is one.
std::unique_ptr<ExtentSession> open_session(fabric::Fabric& fabric, ExtentSessionOptions options) {
  auto session = ExtentSession::connect(fabric, options);
  EXPECT_TRUE(session) << session.error();
  return *std::move(session);
}

TEST_P(ObjectSuite, AnExtentIsSharedByAllWhoKnowItsName) {
  options.extents.bytes = Bytes(1 << 20);
  serve();
  const auto open = [&] {
    return open_session(place_->client_fabric(), {.address = server_->address(),
                                                  .timeout = ::yonder::testing::kPatience,
                                                  .queue = queue_.get(),
                                                  .scheduler = scheduler_.get()});
  };
  const auto first = open();
  const auto second = open();
  const auto opened = first->open_or_create("shared", 64 * 1024);
  ASSERT_TRUE(opened) << opened.error();
  const auto made = *opened;
  const auto opened_again = second->open_or_create("shared", 1);
  ASSERT_TRUE(opened_again) << opened_again.error();
  const auto found = *opened_again;
  EXPECT_EQ(found.length, made.length);
  EXPECT_EQ(first->create("shared", 1).error(), ErrorCode::kAlreadyExists);

  std::array<std::byte, 200> bytes = {};
  std::array<std::byte, 200> seen = {};
  ASSERT_TRUE(second->endpoint().read(LocalPiece::of(seen), found.at(1000)).wait());
  EXPECT_EQ(seen, bytes) << "zeroed";
  bytes.fill(std::byte{7});
  ASSERT_TRUE(first->endpoint().write(LocalPiece::of(bytes), made.at(1000)).wait());
  ASSERT_TRUE(second->endpoint().read(LocalPiece::of(seen), found.at(1000)).wait());
  EXPECT_EQ(seen, bytes);
  const auto added = first->endpoint().fetch_add(made.at(8), 5).wait();
  ASSERT_TRUE(added) << added.error();
  EXPECT_EQ(added->value, 0u);
  const auto swapped = second->endpoint().compare_swap(found.at(8), 5, 9).wait();
  ASSERT_TRUE(swapped) << swapped.error();
  EXPECT_EQ(swapped->value, 5u);

  ASSERT_TRUE(second->remove("shared"));
  EXPECT_FALSE(first->endpoint().read(LocalPiece::of(seen), made.at(1000)).wait());
  EXPECT_EQ(first->open("shared").error(), ErrorCode::kNotFound);
  EXPECT_EQ(first->remove("shared").error(), ErrorCode::kNotFound);
}

TEST_P(ObjectSuite, AnExtentThatCannotBeIsRefused) {
  options.extents.bytes = Bytes(1 << 20);
  serve();
  const auto session = open_session(place_->client_fabric(), {.address = server_->address(),
                                                              .timeout = ::yonder::testing::kPatience,
                                                              .queue = queue_.get(),
                                                              .scheduler = scheduler_.get()});
  EXPECT_EQ(session->create("", 1).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(session->create("a b", 1).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(session->create(std::string(65, 'x'), 1).error(), ErrorCode::kMessageTooLong);
  EXPECT_EQ(session->create("vast", UINT64_MAX).error(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(session->create("nothing", 0).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(session->open("nobody").error(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace yonder::client::suite
