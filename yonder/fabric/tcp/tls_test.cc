// TLS: who is let in, who is not, and that both learn it quickly.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "yonder/fabric/tcp/internal/test_certificates.h"
#include "yonder/fabric/tcp/tcp.h"
#include "yonder/os/steady_clock.h"

namespace yonder::fabric::tcp {
namespace {

const os::SteadyClock kClock;

class Tls : public ::testing::Test {
 protected:
  Tls() : memory_(4096), fabric_(open().value()), queue_(fabric_->create_completion_queue({}).value()) {
    region_ = fabric_->register_memory({.memory = memory_, .rights = Rights::kAll}).value();
  }

  void listen(const std::string& security, const std::string& host = "127.0.0.1") {
    auto listener = fabric_->listen({.address = "tcp://" + host + ":0" + security, .passive = true});
    ASSERT_TRUE(listener) << listener.error();
    listener_ = std::move(*listener);
  }
  // The listener's place with the client's own security.
  std::string address(const std::string& security, const std::string& host = "127.0.0.1") const {
    const std::string full = listener_->address();
    const std::string place = full.substr(0, full.find('?'));
    return "tcp://" + host + place.substr(place.rfind(':')) + security;
  }
  Result<std::unique_ptr<Endpoint>> connect(const std::string& address) {
    return fabric_->connect({.address = address, .connect_timeout = std::chrono::seconds(10)}, *queue_);
  }
  // Refused with `code`, and long before the time is up.
  void expect_refused(const std::string& address, ErrorCode code) {
    const Instant start = kClock.now();
    const auto endpoint = connect(address);
    ASSERT_FALSE(endpoint);
    EXPECT_EQ(endpoint.error(), code) << endpoint.error();
    EXPECT_LT(kClock.now() - start, std::chrono::seconds(8)) << "it waited for its deadline";
  }
  void expect_welcome(const std::string& address) {
    auto endpoint = connect(address);
    ASSERT_TRUE(endpoint) << endpoint.error();
    EXPECT_TRUE((*endpoint)->fetch_add(region_.token().at(0), 1).wait());
  }

  const TestCertificates& files_ = TestCertificates::instance();
  std::vector<std::byte> memory_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<CompletionQueue> queue_;
  Region region_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(Tls, MembersOfOneAuthorityTalk) {
  listen(files_.member("server"));
  expect_welcome(address(files_.member("client")));
  expect_welcome(address(files_.member("client"), "localhost"));
}

TEST_F(Tls, AClientOfAnotherAuthorityIsRefused) {
  listen(files_.member("server"));
  expect_refused(address(files_.stranger()), ErrorCode::kAuthenticationFailed);
  expect_welcome(address(files_.member("client")));
}

TEST_F(Tls, AListenerOfAnotherAuthorityIsNotTrusted) {
  listen(files_.stranger());
  expect_refused(address(files_.member("client")), ErrorCode::kAuthenticationFailed);
}

TEST_F(Tls, AListenerUnderAnotherNameIsNotTrusted) {
  listen(files_.member("server"), "0.0.0.0");
  expect_refused(address(files_.member("client"), "127.0.0.2"), ErrorCode::kAuthenticationFailed);
  expect_welcome(address(files_.member("client")));
}

TEST_F(Tls, HoldersOfOneKeyTalk) {
  listen(files_.psk());
  expect_welcome(address(files_.psk()));
}

TEST_F(Tls, AnotherKeyOrNameIsRefused) {
  listen(files_.psk());
  expect_refused(address(files_.psk("other_psk")), ErrorCode::kAuthenticationFailed);
  expect_refused(address(files_.psk("psk", "somebody")), ErrorCode::kAuthenticationFailed);
  expect_refused(address(files_.member("client")), ErrorCode::kAuthenticationFailed);
  expect_welcome(address(files_.psk()));
}

TEST_F(Tls, APlainClientOfATlsListenerIsToldQuickly) {
  listen(files_.member("server"));
  expect_refused(address(""), ErrorCode::kProtocolMismatch);
  expect_welcome(address(files_.member("client")));
}

TEST_F(Tls, ATlsClientOfAPlainListenerIsToldQuickly) {
  listen("");
  expect_refused(address(files_.member("client")), ErrorCode::kProtocolMismatch);
  expect_welcome(address(""));
}

TEST_F(Tls, FilesThatCannotBeUsedAreNamedAtTheStart) {
  const auto refuse = [this](const std::string& security) {
    const auto listener = fabric_->listen({.address = "tcp://127.0.0.1:0" + security, .passive = true});
    ASSERT_FALSE(listener);
    EXPECT_EQ(listener.error(), ErrorCode::kConfigInvalid) << security;
  };
  refuse(files_.member("nobody"));
  refuse(files_.psk("missing"));
  refuse(files_.psk("short_psk"));
  refuse("?tls=on&ca=" + files_.path("psk") + "&cert=" + files_.path("server.pem") +
         "&key=" + files_.path("server.key"));
  refuse("?tls=on&ca=" + files_.path("ca.pem") + "&cert=" + files_.path("server.pem") +
         "&key=" + files_.path("client.key"));
}

}  // namespace
}  // namespace yonder::fabric::tcp
