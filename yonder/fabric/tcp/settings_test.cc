#include "yonder/fabric/tcp/internal/settings.h"

#include <gtest/gtest.h>

#include "yonder/fabric/tcp/internal/preface.h"

namespace yonder::fabric::tcp {
namespace {

TEST(Settings, TakesAddressesApart) {
  const auto plain = Settings::parse("tcp://127.0.0.1:7400");
  ASSERT_TRUE(plain) << plain.error();
  EXPECT_EQ(plain->host_port, "127.0.0.1:7400");
  EXPECT_FALSE(plain->tls);
  const auto certificates = Settings::parse("tcp://[::1]:0?tls=on&ca=/a&cert=/b&key=/c");
  ASSERT_TRUE(certificates) << certificates.error();
  EXPECT_EQ(certificates->tls->cert, "/b");
  const auto psk = Settings::parse("tcp://h:1?tls=on&psk=/k&psk_identity=me");
  ASSERT_TRUE(psk) << psk.error();
  EXPECT_EQ(psk->tls->psk_identity, "me");
}

TEST(Settings, ComeBackFromTheAddressTheyMake) {
  const auto first = Settings::parse("tcp://h:1?tls=on&ca=/a&cert=/b&key=/c");
  ASSERT_TRUE(first);
  const auto second = Settings::parse(first->address("h:2"));
  ASSERT_TRUE(second) << second.error();
  EXPECT_EQ(second->host_port, "h:2");
  EXPECT_EQ(second->tls, first->tls);
}

TEST(Settings, RefusesWhatItDoesNotUnderstand) {
  for (const char* text :
       {"shm:x", "tcp://", "tcp://host", "tcp://host:99999", "tcp://h:1?colour=red", "tcp://h:1?tls=maybe",
        "tcp://h:1?tls=on", "tcp://h:1?ca=/a", "tcp://h:1?tls=on&ca=/a&cert=/b", "tcp://h:1?tls=on&psk=/k",
        "tcp://h:1?tls=on&ca=/a&cert=/b&key=/c&psk=/k&psk_identity=me",
        "tcp://h:1?tls=on&ca=/a&psk=/k&psk_identity=me"}) {
    const auto settings = Settings::parse(text);
    ASSERT_FALSE(settings) << text;
    EXPECT_EQ(settings.error(), ErrorCode::kAddressInvalid) << text;
  }
}

TEST(Preface, ComesBackAsItWasSent) {
  OpenerPreface opener{.role = StreamRole::kBackward, .ticket = 0x1122334455667788};
  opener.hello.identity = {.tenant = TenantId{9}, .epoch = Epoch{4}};
  const auto decoded = OpenerPreface::decode(opener.encode());
  ASSERT_TRUE(decoded) << decoded.error();
  EXPECT_EQ(decoded->role, StreamRole::kBackward);
  EXPECT_EQ(decoded->ticket, opener.ticket);
  EXPECT_EQ(decoded->hello.identity.tenant, TenantId{9});
  const ListenerPreface answer{
      .status = ErrorCode::kStaleEpoch, .greeting_bytes = 12, .wants_backward = true, .ticket = 7};
  const auto answered = ListenerPreface::decode(answer.encode());
  ASSERT_TRUE(answered) << answered.error();
  EXPECT_EQ(answered->status, ErrorCode::kStaleEpoch);
  EXPECT_EQ(answered->greeting_bytes, 12);
  EXPECT_TRUE(answered->wants_backward);
}

TEST(Preface, RefusesNonsense) {
  OpenerPreface::Encoded opener = OpenerPreface{}.encode();
  opener[40] = std::byte{2};  // No such role.
  EXPECT_FALSE(OpenerPreface::decode(opener));
  ListenerPreface::Encoded answer = ListenerPreface{.greeting_bytes = kMaxGreetingBytes}.encode();
  EXPECT_TRUE(ListenerPreface::decode(answer));
  answer[42] = std::byte{kMaxGreetingBytes + 1};
  EXPECT_FALSE(ListenerPreface::decode(answer));
}

TEST(Preface, TellsStrangersAtTheFirstByte) {
  const std::byte http[] = {std::byte{'G'}};
  EXPECT_FALSE(may_be_hello(http));
  const OpenerPreface::Encoded ours = OpenerPreface{}.encode();
  for (std::size_t i = 0; i <= ours.size(); ++i) EXPECT_TRUE(may_be_hello(std::span(ours).first(i)));
  const std::byte client_hello[] = {std::byte{22}, std::byte{3}, std::byte{1}};
  EXPECT_TRUE(looks_like_tls(client_hello));
  EXPECT_FALSE(looks_like_tls(ours));
}

}  // namespace
}  // namespace yonder::fabric::tcp
