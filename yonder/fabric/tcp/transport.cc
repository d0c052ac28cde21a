#include "yonder/fabric/tcp/internal/transport.h"

#include <utility>

namespace yonder::fabric::tcp {
namespace {

// A peer that acknowledges nothing for so long is gone or as good as gone.
constexpr std::chrono::milliseconds kUserTimeout{10'000};

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(os::Socket socket) : Transport(std::move(socket)) {}
  Result<std::size_t> receive(std::span<const iovec> into) override { return socket().try_receive(into); }
  Result<std::size_t> send(std::span<const iovec> from) override { return socket().try_send(from); }
};

}  // namespace

std::unique_ptr<Transport> make_plain_transport(os::Socket socket) {
  return std::make_unique<PlainTransport>(std::move(socket));
}

Result<void> configure_socket(const os::Socket& socket) {
  YONDER_TRY_VOID(socket.set_no_delay(true));
  YONDER_TRY_VOID(socket.set_user_timeout(kUserTimeout));
  return socket.set_keep_alive({});
}

}  // namespace yonder::fabric::tcp
