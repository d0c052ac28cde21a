// A process for tests that kill processes and cut cables.
//
//   verbs_peer serve ADDRESS     registers memory and serves it passively; prints
//                                "ADDRESS verbs://…"; prints "CONNECTIONS n" when
//                                the number changes; ends with its input
//   verbs_peer hammer ADDRESS MS reads without pause, each with a deadline of MS;
//                                prints "READY" after some reads, "FAILED code ms"
//                                at the first failure (how long after the last
//                                success), "RECOVERED" when reads succeed again
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "yonder/fabric/verbs/verbs.h"

namespace {

using namespace yonder;
using namespace yonder::fabric;

int complain(const char* what, const Error& error) {
  std::fprintf(stderr, "verbs_peer: %s: %s\n", what, error.to_string().c_str());
  return 1;
}

int serve(Fabric& fabric, const std::string& address) {
  std::vector<std::byte> memory(1 << 20);
  const auto region = fabric.register_memory({.memory = memory, .rights = Rights::kAll});
  if (!region) return complain("register", region.error());
  ListenOptions options{.address = address, .passive = true};
  options.greeting.resize(RegionToken::kEncodedBytes);
  region->token().encode(std::span(options.greeting).first<RegionToken::kEncodedBytes>());
  const auto listener = fabric.listen(options);
  if (!listener) return complain("listen", listener.error());
  std::printf("ADDRESS %s\n", (*listener)->address().c_str());
  std::size_t last = 0;
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  char byte = 0;
  while (::poll(&input, 1, 20) == 0 || ::read(STDIN_FILENO, &byte, 1) > 0) {
    const std::size_t now = (*listener)->connection_count();
    if (now != last) std::printf("CONNECTIONS %zu\n", now);
    last = now;
  }
  return 0;
}

class Hammer {
 public:
  Hammer(Fabric& fabric, Endpoint& endpoint, Duration limit)
      : fabric_(fabric), endpoint_(endpoint), limit_(limit) {}

  // One read of 4 KiB; kOk or its error.
  ErrorCode strike() {
    const auto token = RegionToken::decode(endpoint_.greeting());
    if (!token) return token.error().code();
    const auto done =
        endpoint_
            .read(LocalPiece::of(std::span(buffer_)), token->at(0), Deadline::after(fabric_.clock(), limit_))
            .wait();
    if (done) last_success_ = fabric_.clock().now();
    return done ? ErrorCode::kOk : done.error().code();
  }
  long since_success_ms() const {
    return static_cast<long>((fabric_.clock().now() - last_success_) / std::chrono::milliseconds(1));
  }

 private:
  Fabric& fabric_;
  Endpoint& endpoint_;
  const Duration limit_;
  std::array<std::byte, 4096> buffer_{};
  Instant last_success_;
};

int hammer(Fabric& fabric, const std::string& address, Duration limit) {
  auto queue = fabric.create_completion_queue({});
  if (!queue) return complain("queue", queue.error());
  auto endpoint = fabric.connect({.address = address}, **queue);
  if (!endpoint) return complain("connect", endpoint.error());
  Hammer reads(fabric, **endpoint, limit);
  ErrorCode code = ErrorCode::kOk;
  for (int count = 0; code == ErrorCode::kOk; ++count) {
    code = reads.strike();
    if (count == 20) std::printf("READY\n");
  }
  std::printf("FAILED %s %ld\n", std::string(error_name(code)).c_str(), reads.since_success_ms());
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (reads.strike() != ErrorCode::kOk) continue;
    std::printf("RECOVERED\n");
    return 0;
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string mode = argc > 2 ? argv[1] : "";
  auto fabric = verbs::open();
  if (!fabric) return complain("open", fabric.error());
  if (mode == "serve") return serve(**fabric, argv[2]);
  if (mode == "hammer" && argc > 3) {
    return hammer(**fabric, argv[2], std::chrono::milliseconds(std::atoi(argv[3])));
  }
  std::fprintf(stderr, "usage: verbs_peer serve ADDRESS | hammer ADDRESS MS\n");
  return 2;
}
