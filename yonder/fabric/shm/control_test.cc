#include "yonder/fabric/shm/internal/control.h"

#include <gtest/gtest.h>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::shm {
namespace {

WelcomePacket some_welcome() {
  WelcomePacket packet{.hello = {.process = 5}, .flags = kMembarrier, .max_message = 1000, .connection = 77};
  packet.shape = {.cells = LinkShape::cells_for(1000), .receive_depth = {16, 128}};
  packet.contact = {.queue_line = 3, .queue_entry = 4, .service_entry = 5, .receive_line = 6};
  packet.greeting = {std::byte{1}, std::byte{2}};
  return packet;
}

TEST(Control, PacketsSurviveTheirEncoding) {
  const HelloPacket hello{.hello = {.identity = {.tenant = TenantId{4}, .epoch = Epoch{9}}, .process = 1},
                          .flags = kForeign,
                          .max_message = 4096,
                          .receive_depth = 64,
                          .contact = {.queue_line = 1, .queue_entry = 2, .service_entry = 3}};
  const auto hello_again = decode_hello(encode(hello).bytes());
  ASSERT_TRUE(hello_again) << hello_again.error();
  EXPECT_EQ(hello_again->hello.identity.epoch, Epoch{9});
  EXPECT_EQ(hello_again->receive_depth, 64u);
  EXPECT_EQ(hello_again->contact.service_entry, 3u);

  const auto welcome = decode_welcome(encode(some_welcome()).bytes());
  ASSERT_TRUE(welcome) << welcome.error();
  EXPECT_EQ(welcome->greeting.size(), 2u);
  EXPECT_EQ(welcome->connection, 77u);
  EXPECT_EQ(welcome->shape.receive_depth[1], 128u);

  const ResolvedPacket resolved{.key = RegionKey{8},
                                .direct = true,
                                .rights = Rights::kAll,
                                .slot = 7,
                                .state = 11,
                                .length = 4096,
                                .address = 99};
  const auto resolved_again = decode_resolved(encode(resolved).bytes());
  ASSERT_TRUE(resolved_again) << resolved_again.error();
  EXPECT_EQ(resolved_again->state, 11u);
  EXPECT_TRUE(resolved_again->direct);
  EXPECT_EQ(decode_resolve(encode(ResolvePacket{RegionKey{3}}).bytes())->key, RegionKey{3});
  EXPECT_EQ(packet_type(encode_wake().bytes()).value(), PacketType::kWake);
}

TEST(Control, ARefusalCarriesItsReason) {
  const auto refused = decode_welcome(encode(WelcomePacket{.status = ErrorCode::kStaleEpoch}).bytes());
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, ErrorCode::kStaleEpoch);
}

TEST(Control, TruncatedAndOverlongPacketsAreMalformed) {
  const Packet whole = encode(some_welcome());
  for (std::size_t length = 0; length < whole.bytes().size(); ++length)
    EXPECT_FALSE(decode_welcome(whole.bytes().first(length))) << length;
  Packet longer = whole;
  longer.put(std::uint8_t{0});
  EXPECT_FALSE(decode_welcome(longer.bytes()));
}

TEST(Control, NumbersOutOfRangeAreMalformed) {
  WelcomePacket packet = some_welcome();
  packet.shape.cells = 300;  // not a power of two
  EXPECT_FALSE(decode_welcome(encode(packet).bytes()));
  packet = some_welcome();
  packet.shape.cells = 256;  // too few for the longest message
  packet.max_message = 64 * 1024;
  EXPECT_FALSE(decode_welcome(encode(packet).bytes()));
  packet = some_welcome();
  packet.shape.receive_depth[0] = 0;
  EXPECT_FALSE(decode_welcome(encode(packet).bytes()));
  packet = some_welcome();
  packet.contact.queue_line = 1u << 20;
  EXPECT_FALSE(decode_welcome(encode(packet).bytes()));
  ResolvedPacket resolved{.key = RegionKey{1}, .slot = 1u << 20, .length = 1};
  EXPECT_FALSE(decode_resolved(encode(resolved).bytes()));
  resolved = {.key = RegionKey{1}, .rights = static_cast<Rights>(8), .length = 1};
  EXPECT_FALSE(decode_resolved(encode(resolved).bytes()));
}

TEST(Control, RandomBytesAreRefusedWithoutHarm) {
  Prng random(::yonder::testing::test_seed());
  std::vector<std::byte> bytes(kMaxPacket);
  for (int round = 0; round < 20'000; ++round) {
    const std::size_t length = random.below(bytes.size() + 1);
    for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(random.below(256));
    const std::span<const std::byte> packet(bytes.data(), length);
    (void)packet_type(packet);
    EXPECT_FALSE(decode_hello(packet));  // The magic alone makes it improbable.
    const auto welcome = decode_welcome(packet);
    EXPECT_TRUE(!welcome || welcome->status != ErrorCode::kOk || welcome->shape.valid());
    const auto resolved = decode_resolved(packet);
    EXPECT_TRUE(!resolved || resolved->slot < (1u << 20));
  }
}

}  // namespace
}  // namespace yonder::fabric::shm
