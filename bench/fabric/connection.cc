#include "bench/fabric/connection.h"

#include "yonder/fabric/address.h"
#include "yonder/fabric/open/open.h"

namespace yonder::bench {

Result<Connection> connect_to_lender(const std::string& address) {
  Connection connection;
  YONDER_TRY(parsed, fabric::parse_address(address));
  connection.provider = parsed.provider;
  YONDER_TRY(opened, fabric::open(address));
  connection.fabric = std::move(opened);
  YONDER_TRY(queue, connection.fabric->create_completion_queue({}));
  connection.queue = std::move(queue);
  YONDER_TRY(endpoint, connection.fabric->connect({.address = address}, *connection.queue));
  connection.endpoint = std::move(endpoint);
  YONDER_TRY(token, fabric::RegionToken::decode(connection.endpoint->greeting()));
  connection.memory = token;
  return connection;
}

Result<std::vector<Connection>> connect_all(const std::vector<std::string>& addresses) {
  std::vector<Connection> connections;
  for (const std::string& address : addresses) {
    YONDER_TRY(connection, connect_to_lender(address));
    connections.push_back(std::move(connection));
  }
  return connections;
}

}  // namespace yonder::bench
