// A client that reads and writes two objects until it is killed: yonderd_test.cc.
#include <cstdlib>
#include <string>
#include <vector>

#include "yonder/client/session.h"
#include "yonder/fabric/open/open.h"

namespace {

yonder::client::ObjectPtr pointer_in(const std::string& text) {
  const std::size_t colon = text.find(':');
  return yonder::client::ObjectPtr::from_words(std::stoull(text.substr(0, colon)),
                                               std::stoull(text.substr(colon + 1)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  auto fabric = yonder::fabric::open(argv[1]);
  if (!fabric) return 3;
  auto session = yonder::client::Session::connect(**fabric, {.address = argv[1]});
  if (!session) return 4;
  yonder::client::ObjectPtr small = pointer_in(argv[2]);
  yonder::client::ObjectPtr large = pointer_in(argv[3]);
  for (unsigned value = 0;; ++value) {
    for (yonder::client::ObjectPtr* object : {&small, &large}) {
      std::vector<std::byte> bytes(object->size(), static_cast<std::byte>(value));
      if (!(*session)->write(*object, bytes)) return 5;
      if (!(*session)->direct_read(*object, bytes)) return 6;
    }
  }
}
