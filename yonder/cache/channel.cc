#include "yonder/cache/internal/channel.h"

#include <utility>

namespace yonder::cache {
namespace {

class PlainChannel final : public Channel {
 public:
  explicit PlainChannel(os::Socket socket) : socket_(std::move(socket)) {}

  Result<std::size_t> receive(std::span<char> to) override {
    return socket_.try_receive(std::as_writable_bytes(to));
  }
  Result<std::size_t> send(std::span<const char> from) override {
    return socket_.try_send(std::as_bytes(from));
  }
  const os::Socket& socket() const override { return socket_; }

 private:
  os::Socket socket_;
};

}  // namespace

std::unique_ptr<Channel> make_plain_channel(os::Socket socket) {
  return std::make_unique<PlainChannel>(std::move(socket));
}

}  // namespace yonder::cache
