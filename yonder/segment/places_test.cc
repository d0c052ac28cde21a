#include "yonder/segment/internal/places.h"

#include <gtest/gtest.h>

namespace yonder::segment::internal {
namespace {

TEST(Places, AreToldWithoutWhatIsAboutThisHost) {
  EXPECT_EQ(told("tcp://10.0.0.1:7500?psk=/etc/key&psk_identity=a&tls=on"), "tcp://10.0.0.1:7500");
  EXPECT_EQ(told("shm:abc"), "shm:abc");
}

TEST(Places, AreDialledWithOurOwnOptionsWhateverThePeerWrote) {
  const std::string ours = "tcp://0.0.0.0:0?psk=/our/key&psk_identity=a&tls=on";
  EXPECT_EQ(dialled("tcp://10.0.0.1:7500", ours).value(),
            "tcp://10.0.0.1:7500?psk=/our/key&psk_identity=a&tls=on");
  EXPECT_EQ(dialled("tcp://10.0.0.1:7500?tls=off", ours).value(),
            "tcp://10.0.0.1:7500?psk=/our/key&psk_identity=a&tls=on");
  EXPECT_EQ(dialled("tcp://10.0.0.1:7500?psk=/etc/shadow&tls=on", "tcp://0.0.0.0:0").value(),
            "tcp://10.0.0.1:7500");
}

TEST(Places, OfAnotherProviderOrNoneAreRefused) {
  EXPECT_EQ(dialled("shm:abc", "tcp://0.0.0.0:0").error().code(), ErrorCode::kAddressInvalid);
  EXPECT_EQ(dialled("nonsense", "tcp://0.0.0.0:0").error().code(), ErrorCode::kAddressInvalid);
}

}  // namespace
}  // namespace yonder::segment::internal
