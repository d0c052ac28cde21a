// Reads, writes and atomics of the conformance suite.
#include <cstring>

#include "yonder/fabric/conformance/bed.h"

namespace yonder::fabric::conformance {
namespace {

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>((i * 131 + seed * 7 + 1) & 0xff);
  return out;
}

TEST_P(Conformance, ReadsWhatTheTargetWrote) {
  const auto expected = pattern(4096, 1);
  std::memcpy(memory_.bytes.data() + 512, expected.data(), expected.size());
  std::vector<std::byte> got(4096);
  const auto done = client_->read(LocalPiece::of(std::span(got)), token_.at(512), soon()).wait();
  ASSERT_TRUE(done) << done.error();
  EXPECT_EQ(done->length, 4096u);
  EXPECT_EQ(got, expected);
}

TEST_P(Conformance, WritesWhatTheTargetThenSees) {
  const auto sent = pattern(5000, 2);
  const auto done = client_->write(LocalPiece::of(std::span(sent)), token_.at(100), soon()).wait();
  ASSERT_TRUE(done) << done.error();
  EXPECT_EQ(std::memcmp(memory_.bytes.data() + 100, sent.data(), sent.size()), 0);
}

}  // namespace
}  // namespace yonder::fabric::conformance
