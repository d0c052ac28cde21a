// The object API over shared memory: by loads from windows, and by requests.
#include "yonder/client/suite/bed.h"
#include "yonder/fabric/testbed/shm_place.h"

namespace yonder::client::suite {
namespace {

std::unique_ptr<Place> in_process() { return std::make_unique<fabric::testbed::ShmPlace>(""); }
std::unique_ptr<Place> foreign() { return std::make_unique<fabric::testbed::ShmPlace>("?inprocess=off"); }

// What the other providers do not have: loads.
class NearObjects : public ObjectSuite {};

TEST_P(NearObjects, ADisplacedObjectIsFoundByLoadsAlone) {
  serve();
  const auto session = connect({.correction = Correction::kScan});
  constexpr std::uint32_t kBytes = 120;
  std::vector<ObjectPtr> objects = thin_out(*session, 3000, kBytes, 5);
  std::vector<std::byte> out(kBytes);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    ASSERT_TRUE(session->write(objects[i], pattern(kBytes, i + 1)));
    ASSERT_TRUE(session->direct_read(objects[i], out));
  }
  ASSERT_GT(server_->compact(), 0u);
  const SessionStats before = session->stats();
  for (std::size_t i = 0; i < objects.size(); ++i) {
    ASSERT_TRUE(session->direct_read(objects[i], out));
    EXPECT_EQ(number_in(out), i + 1);
  }
  EXPECT_GT(session->stats().corrections, before.corrections) << "compaction displaced something";
  EXPECT_EQ(session->stats().near_reads - before.near_reads, objects.size());
}

INSTANTIATE_TEST_SUITE_P(Shm, NearObjects,
                         ::testing::Values(Provider{"in_process", in_process, node::Validator::kReread},
                                           Provider{"foreign", foreign, node::Validator::kReread}),
                         provider_name);
INSTANTIATE_TEST_SUITE_P(Shm, ThreadedSuite,
                         ::testing::Values(Provider{"in_process", in_process, node::Validator::kReread},
                                           Provider{"foreign", foreign, node::Validator::kReread},
                                           Provider{.name = "owners",
                                                    .make = foreign,
                                                    .validator = node::Validator::kReread,
                                                    .correction = node::Correction::kOwner}),
                         provider_name);
INSTANTIATE_TEST_SUITE_P(Shm, ObjectSuite,
                         ::testing::Values(Provider{"in_process", in_process, node::Validator::kReread},
                                           Provider{"foreign", foreign, node::Validator::kReread},
                                           Provider{"foreign_checksum", foreign, node::Validator::kChecksum},
                                           Provider{"requests", foreign, node::Validator::kReread, false},
                                           Provider{"requests_checksum", foreign, node::Validator::kChecksum,
                                                    false},
                                           Provider{.name = "owners",
                                                    .make = foreign,
                                                    .validator = node::Validator::kReread,
                                                    .correction = node::Correction::kOwner}),
                         provider_name);

}  // namespace
}  // namespace yonder::client::suite
