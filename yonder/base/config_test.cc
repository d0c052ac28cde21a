#include "yonder/base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum class Remap { kTable = 3, kMmap = 5 };

// A schema with one option of every type, and files in a directory of their own.
class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "yonder-config-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& text) {
    const std::string path = directory_ / "yonder.toml";
    std::ofstream(path) << text;
    return path;
  }

  Config load(ConfigSources sources) {
    auto config = load_config(schema_, sources);
    EXPECT_TRUE(config.has_value()) << config.error().message;
    return std::move(config).value();
  }

  // The message, with the directory cut out of it.
  std::string error(ConfigSources sources) {
    const auto config = load_config(schema_, sources);
    if (config) return "(no error)";
    std::string message = config.error().message;
    const std::string prefix = directory_.string() + "/";
    if (const auto at = message.find(prefix); at != std::string::npos) message.erase(at, prefix.size());
    return message;
  }
  std::string file_error(const std::string& text) { return error({.default_file = write(text)}); }

  std::filesystem::path directory_;
  ConfigSchema schema_;
  Option<std::int64_t> depth_ = schema_.add<std::int64_t>({.name = "fabric.depth",
                                                           .fallback = 64,
                                                           .help = "operations outstanding",
                                                           .min = 1,
                                                           .max = 4096,
                                                           .alias = "-d"});
  Option<Bytes> pool_ =
      schema_.add<Bytes>({.name = "node.pool", .fallback = 64_MiB, .help = "memory", .min = 1_MiB});
  Option<Duration> spin_ = schema_.add<Duration>(
      {.name = "fabric.tcp.spin", .fallback = 50us, .help = "spin before sleeping", .max = 1s});
  Option<bool> tls_ =
      schema_.add<bool>({.name = "fabric.tls", .fallback = false, .help = "encrypt", .alias = "--tls"});
  Option<double> share_ =
      schema_.add<double>({.name = "heap.share", .fallback = 0.8, .help = "threshold", .min = 0, .max = 1});
  Option<std::string> name_ =
      schema_.add<std::string>({.name = "node.name", .fallback = "n0", .help = "name"});
  Option<std::string> psk_ =
      schema_.add<std::string>({.name = "fabric.psk", .fallback = "", .help = "key", .secret = true});
  Option<Remap> remap_ =
      schema_.add_choice<Remap>({.name = "node.remap",
                                 .fallback = Remap::kTable,
                                 .help = "how a mapping is published",
                                 .choices = {{"table", Remap::kTable}, {"mmap", Remap::kMmap}}});
};

TEST_F(ConfigTest, DefaultsHoldWhereNothingIsSaid) {
  const Config config = load({});
  EXPECT_EQ(config.get(depth_), 64);
  EXPECT_EQ(config.get(pool_), 64_MiB);
  EXPECT_EQ(config.get(spin_), 50us);
  EXPECT_EQ(config.get(tls_), false);
  EXPECT_EQ(config.get(share_), 0.8);
  EXPECT_EQ(config.get(name_), "n0");
  EXPECT_EQ(config.get(remap_), Remap::kTable);
  EXPECT_EQ(config.origin(depth_).kind, ConfigOrigin::Kind::kDefault);
}

TEST_F(ConfigTest, FileGivesEveryType) {
  const std::string path = write(
      "[fabric]\ndepth = 128\ntls = true\ntcp.spin = '1.5ms'\n"
      "[node]\npool = '2GiB'\nname = 'a \"b\"'\nremap = 'mmap'\n[heap]\nshare = 1\n");
  const Config config = load({.default_file = path});
  EXPECT_EQ(config.get(depth_), 128);
  EXPECT_EQ(config.get(tls_), true);
  EXPECT_EQ(config.get(spin_), 1500us);
  EXPECT_EQ(config.get(pool_), 2_GiB);
  EXPECT_EQ(config.get(name_), "a \"b\"");
  EXPECT_EQ(config.get(remap_), Remap::kMmap);
  EXPECT_EQ(config.get(share_), 1.0);
  EXPECT_EQ(config.origin(spin_).where, path + ":4");
}

TEST_F(ConfigTest, FlagsWinOverEnvironmentOverFile) {
  const std::string path = write("[fabric]\ndepth = 1\ntls = true\n[node]\nname = 'file'\n");
  const Config config = load({.arguments = {"--fabric.depth=3"},
                              .environment = {"YONDER_FABRIC_DEPTH=2", "YONDER_NODE_NAME=env", "HOME=/root"},
                              .default_file = path});
  EXPECT_EQ(config.get(depth_), 3);
  EXPECT_EQ(config.get(name_), "env");
  EXPECT_EQ(config.get(tls_), true);
  EXPECT_EQ(config.origin(depth_).where, "--fabric.depth");
  EXPECT_EQ(config.origin(name_).where, "YONDER_NODE_NAME");
  EXPECT_EQ(config.origin(name_).kind, ConfigOrigin::Kind::kEnvironment);
  EXPECT_EQ(config.origin(tls_).kind, ConfigOrigin::Kind::kFile);
}

TEST_F(ConfigTest, FlagsComeInSeveralForms) {
  const Config config =
      load({.arguments = {"-d", "7", "--tls", "--node.name", "--odd", "--node.pool=1.5MiB"}});
  EXPECT_EQ(config.get(depth_), 7);
  EXPECT_EQ(config.get(tls_), true);
  EXPECT_EQ(config.get(name_), "--odd");
  EXPECT_EQ(config.get(pool_), 1536_KiB);
  EXPECT_EQ(load({.arguments = {"--tls", "--tls=false"}}).get(tls_), false);
  EXPECT_EQ(load({.arguments = {"--node.name="}}).get(name_), "");
}

TEST_F(ConfigTest, BuiltInFlagsSetTheirBits) {
  const Config config = load({.arguments = {"--help", "--print-config", "--version"}});
  EXPECT_TRUE(config.help_requested() && config.print_requested() && config.version_requested());
  EXPECT_TRUE(load({.arguments = {"-h"}}).help_requested());
  EXPECT_FALSE(load({}).help_requested());
  EXPECT_EQ(error({.arguments = {"--help=x"}}), "--help: takes no value");
}

TEST_F(ConfigTest, TheFileIsNamedByFlagElseEnvironmentElseDefault) {
  const std::string path = write("[fabric]\ndepth = 9\n");
  EXPECT_EQ(load({.arguments = {"--config", path}, .environment = {"YONDER_CONFIG=/nowhere"}}).get(depth_),
            9);
  EXPECT_EQ(load({.environment = {"YONDER_CONFIG=" + path}, .default_file = "/nowhere"}).get(depth_), 9);
  EXPECT_EQ(load({.default_file = "/nowhere"}).get(depth_), 64);
  EXPECT_EQ(error({.arguments = {"--config=/nowhere"}}),
            "/nowhere: cannot be read: No such file or directory");
  EXPECT_THAT(error({.arguments = {"--config", directory_}}), HasSubstr("cannot be read: Is a directory"));
  EXPECT_EQ(error({.arguments = {"--config="}}), "--config: expected the name of a file");
}

TEST_F(ConfigTest, UnknownKeysNameTheirLineAndTheNearestKnownKey) {
  EXPECT_EQ(file_error("[fabric]\n\ndpeth = 5\n"),
            "yonder.toml:3: unknown key fabric.dpeth; did you mean fabric.depth?");
  EXPECT_EQ(file_error("pool = '1MiB'\n"), "yonder.toml:1: unknown key pool; did you mean node.pool?");
  EXPECT_EQ(file_error("[colours]\nsky = 5\n"), "yonder.toml:2: unknown key colours.sky");
  // The first mistake of the file is reported, not the first in the alphabet.
  EXPECT_THAT(file_error("[z]\nz = 1\n[a]\na = 1\n"), HasSubstr("yonder.toml:2: unknown key z.z"));
}

TEST_F(ConfigTest, UnknownVariablesAndFlagsAreErrorsToo) {
  EXPECT_EQ(
      error({.environment = {"YONDER_FABRIC_DPETH=5"}}),
      "environment: YONDER_FABRIC_DPETH is no option of this program; did you mean YONDER_FABRIC_DEPTH?");
  EXPECT_EQ(error({.environment = {"YONDER_TEST_SEED=5"}}), "(no error)");
  EXPECT_EQ(error({.arguments = {"--fabric.detph=5"}}),
            "--fabric.detph: unknown flag; did you mean --fabric.depth?");
  EXPECT_EQ(error({.arguments = {"--pool=5"}}), "--pool: unknown flag; did you mean --node.pool?");
  EXPECT_EQ(error({.arguments = {"--prnt-config"}}),
            "--prnt-config: unknown flag; did you mean --print-config?");
}

TEST_F(ConfigTest, WrongValuesSayWhatWasExpected) {
  EXPECT_EQ(file_error("[fabric]\ndepth = '5'\n"),
            "yonder.toml:2: fabric.depth: expected an integer, found a string");
  EXPECT_EQ(file_error("[fabric]\ndepth = [5]\n"),
            "yonder.toml:2: fabric.depth: expected an integer, found an array or a date");
  EXPECT_EQ(file_error("[fabric]\ndepth = 5000\n"),
            "yonder.toml:2: fabric.depth = 5000: must be between 1 and 4096");
  EXPECT_EQ(error({.arguments = {"--fabric.depth=5x"}}), "--fabric.depth=5x: expected an integer");
  EXPECT_EQ(error({.arguments = {"-d"}}), "-d: expected a value");
  EXPECT_EQ(error({.arguments = {"--node.pool=1KiB"}}), "--node.pool=1KiB: must be at least \"1MiB\"");
  EXPECT_EQ(error({.arguments = {"--fabric.tcp.spin=2s"}}), "--fabric.tcp.spin=2s: must be at most \"1s\"");
  EXPECT_EQ(error({.environment = {"YONDER_FABRIC_TCP_SPIN=50"}}),
            "YONDER_FABRIC_TCP_SPIN=50: expected a duration with its unit, like 50us");
  EXPECT_EQ(error({.arguments = {"--node.remap=tabel"}}),
            "--node.remap=tabel: expected one of: table, mmap; did you mean table?");
  EXPECT_EQ(error({.arguments = {"--tls=yes"}}), "--tls=yes: expected true or false");
  EXPECT_EQ(error({.arguments = {"--heap.share=nan"}}), "--heap.share=nan: expected a number");
}

TEST_F(ConfigTest, BrokenTomlNamesItsLine) {
  EXPECT_THAT(file_error("[fabric]\ndepth = = 5\n"), ::testing::StartsWith("yonder.toml:2: "));
  EXPECT_THAT(file_error("[fabric]\ndepth = 5\ndepth = 6\n"), ::testing::StartsWith("yonder.toml:3: "));
  EXPECT_EQ(file_error(""), "(no error)");
}

TEST_F(ConfigTest, PositionalArgumentsAreTakenOnlyIfAllowed) {
  EXPECT_EQ(error({.arguments = {"bench"}}), "bench: unexpected argument; flags begin with --");
  const Config config =
      load({.arguments = {"bench", "-d", "5", "-", "--", "--not-a-flag"}, .allow_positional = true});
  EXPECT_THAT(config.positional(), ElementsAre("bench", "-", "--not-a-flag"));
  EXPECT_EQ(config.get(depth_), 5);
}

TEST_F(ConfigTest, PrintedConfigurationLoadsToTheSameValues) {
  Prng prng(testing::test_seed());
  for (int round = 0; round < 50; ++round) {
    std::string text(prng.below(10), ' ');
    for (char& c : text) c = static_cast<char>(prng.between(1, 127));
    const double share = prng.uniform_double();
    char digits[64];
    std::snprintf(digits, sizeof digits, "%.17g", share);
    const Config config =
        load({.arguments = {"--node.name=" + text, std::string("--heap.share=") + digits,
                            "--node.pool=" + std::to_string(prng.between(1 << 20, UINT64_MAX)),
                            "--fabric.tcp.spin=" + std::to_string(prng.below(1'000'000'000)) + "ns",
                            "--node.remap=mmap"}});
    const Config again = load({.default_file = write(config.print())});
    EXPECT_EQ(again.get(name_), text);
    EXPECT_EQ(again.get(share_), share);
    EXPECT_EQ(again.get(pool_), config.get(pool_));
    EXPECT_EQ(again.get(spin_), config.get(spin_));
    EXPECT_EQ(again.get(remap_), Remap::kMmap);
  }
}

TEST_F(ConfigTest, PrintShowsOriginsAndHidesSecrets) {
  const Config config = load({.arguments = {"--fabric.psk=hunter2", "-d", "5"}});
  EXPECT_EQ(config.get(psk_), "hunter2");
  EXPECT_THAT(config.print(), HasSubstr("[fabric]\ndepth = 5                                # -d\n"));
  EXPECT_THAT(config.print(), HasSubstr("# psk is secret                          # --fabric.psk\n"));
  EXPECT_THAT(config.print(),
              HasSubstr("[fabric.tcp]\nspin = \"50us\"                            # default\n"));
  EXPECT_THAT(config.print(), ::testing::Not(HasSubstr("hunter2")));
}

TEST_F(ConfigTest, HelpNamesEverything) {
  EXPECT_THAT(schema_.help(), HasSubstr("  -d, --fabric.depth\n      operations outstanding\n"
                                        "      an integer; default 64; YONDER_FABRIC_DEPTH\n"));
}

TEST_F(ConfigTest, SourcesComeFromMainAndTheProcess) {
  const char* const argv[] = {"program", "-d", "5"};
  const ConfigSources sources = config_sources(3, argv);
  EXPECT_THAT(sources.arguments, ElementsAre("-d", "5"));
  EXPECT_FALSE(sources.environment.empty());
}

TEST(ConfigSchemaDeathTest, RefusesASchemaThatCannotWork) {
  ConfigSchema schema;
  schema.add<bool>({.name = "a.b_c", .alias = "-x"});
  EXPECT_DEATH(schema.add<bool>({.name = "A.b"}), "snake_case");
  EXPECT_DEATH(schema.add<bool>({.name = "a..b"}), "snake_case");
  EXPECT_DEATH(schema.add<bool>({.name = "a.b.c"}), "share a name");  // Equal in the environment.
  EXPECT_DEATH(schema.add<bool>({.name = "a"}), "section share a name");
  EXPECT_DEATH(schema.add<bool>({.name = "b", .alias = "-x"}), "share an alias");
  EXPECT_DEATH(schema.add<bool>({.name = "b", .alias = "x"}), "an alias is a flag");
  EXPECT_DEATH(schema.add<bool>({.name = "config"}), "built-in");
  EXPECT_DEATH(schema.add<std::int64_t>({.name = "b", .fallback = 5, .max = 4}), "the default is allowed");
  EXPECT_DEATH(schema.add<std::string>({.name = "b", .min = "x"}), "only quantities have a range");
  EXPECT_DEATH(schema.add_choice<Remap>({.name = "b", .choices = {{"mmap", Remap::kMmap}}}),
               "the default is allowed");
}

}  // namespace
}  // namespace yonder
