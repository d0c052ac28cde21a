// The object API over tcp on the loopback.
#include "yonder/fabric/tcp/tcp.h"

#include "yonder/client/suite/bed.h"

namespace yonder::client::suite {
namespace {

class TcpPlace final : public Place {
 public:
  fabric::Fabric& server_fabric() override { return *server_; }
  fabric::Fabric& client_fabric() override { return *client_; }
  std::string listen_address() override { return "tcp://127.0.0.1:0"; }

 private:
  std::unique_ptr<fabric::Fabric> server_ = fabric::tcp::open().value();
  std::unique_ptr<fabric::Fabric> client_ = fabric::tcp::open().value();
};

std::unique_ptr<Place> tcp() { return std::make_unique<TcpPlace>(); }

INSTANTIATE_TEST_SUITE_P(Tcp, ObjectSuite,
                         ::testing::Values(Provider{"checksum", tcp, node::Validator::kChecksum},
                                           Provider{"reread", tcp, node::Validator::kReread}),
                         provider_name);

}  // namespace
}  // namespace yonder::client::suite
