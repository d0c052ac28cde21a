#include "bench/fragmentation/trace.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace yonder::bench {
namespace {

using Op = TraceRecord::Op;

std::vector<std::byte> encode(const std::vector<TraceRecord>& records) {
  std::vector<std::byte> bytes;
  for (const TraceRecord& record : records) append_record(record, bytes);
  return bytes;
}

TEST(Trace, GivesBackWhatWasWritten) {
  const auto bytes =
      encode({{Op::kAlloc, 0, 70'000}, {Op::kAlloc, 1, 5}, {Op::kFree, 0, 0}, {Op::kAlloc, 0, 9}});
  EXPECT_EQ(bytes.size(), 4 * kTraceRecordBytes);
  EXPECT_EQ(bytes[0], std::byte{1});
  EXPECT_EQ(bytes[5], std::byte{0x70}) << "little endian";
  const auto records = parse_trace(bytes).value();
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].bytes, 70'000u);
  EXPECT_EQ(records[2].op, Op::kFree);
  EXPECT_EQ(records[3].object, 0u);
}

TEST(Trace, RefusesWhatNoProgramCanHaveDone) {
  EXPECT_EQ(parse_trace(encode({{Op::kFree, 0, 0}})).error(), ErrorCode::kCorrupt)
      << "freed, never allocated";
  EXPECT_EQ(parse_trace(encode({{Op::kAlloc, 0, 8}, {Op::kAlloc, 0, 8}})).error(), ErrorCode::kCorrupt);
  EXPECT_EQ(parse_trace(encode({{Op::kAlloc, 0, 0}})).error(), ErrorCode::kCorrupt);
  EXPECT_EQ(parse_trace(encode({{static_cast<Op>(3), 0, 1}})).error(), ErrorCode::kCorrupt);
  EXPECT_EQ(parse_trace(encode({{Op::kAlloc, UINT32_MAX, 1}})).error(), ErrorCode::kCorrupt);
  auto cut = encode({{Op::kAlloc, 0, 8}});
  cut.pop_back();
  EXPECT_EQ(parse_trace(cut).error(), ErrorCode::kCorrupt);
}

TEST(Trace, ReadsFilesAndSaysWhatIsWrongWithThem) {
  std::string folder = (std::filesystem::temp_directory_path() / "yonder-trace-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const auto bytes = encode({{Op::kAlloc, 3, 8}});
  const std::string plain = folder + "/t.bin";
  const std::string packed = folder + "/t.bin.zst";
  for (const std::string& path : {plain, packed}) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  EXPECT_EQ(read_trace(plain).value().size(), 1u);
  EXPECT_FALSE(read_trace(packed)) << "not what its name says";
  EXPECT_EQ(read_trace(folder + "/none").error(), ErrorCode::kNotFound);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace yonder::bench
