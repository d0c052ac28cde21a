#include "apps/yonderd/settings.h"

#include <fmt/format.h>

#include <sstream>

namespace yonder::apps {
namespace {

enum class ValidatorChoice : std::uint8_t { kAuto, kReread, kChecksum };

struct Options {
  ConfigSchema schema;

  Option<std::string> listen =
      schema.add<std::string>({.name = "node.listen",
                               .fallback = "tcp://127.0.0.1:7400",
                               .help = "where clients connect to: addresses of fabrics, separated by commas",
                               .alias = "--listen"});
  Option<std::int64_t> id = schema.add<std::int64_t>(
      {.name = "node.id", .fallback = 0, .help = "goes into every pointer", .min = 0, .max = 65535});
  Option<Bytes> memory = schema.add<Bytes>({.name = "node.memory",
                                            .fallback = 1_GiB,
                                            .help = "the most memory objects may take",
                                            .min = 1_MiB,
                                            .max = 256_GiB,
                                            .alias = "--memory"});
  Option<Bytes> extents =
      schema.add<Bytes>({.name = "node.extents",
                         .fallback = node::ExtentLimits().bytes,
                         .help = "the most memory extents may take: what clients read and write as they like",
                         .min = 0_B,
                         .max = 256_GiB,
                         .alias = "--extents"});
  Option<std::string> functions =
      schema.add<std::string>({.name = "node.functions",
                               .help = "the directory of the libraries whose functions clients may call on "
                                       "their extents; empty: none",
                               .alias = "--functions"});
  Option<std::int64_t> function_workers =
      schema.add<std::int64_t>({.name = "node.function_workers",
                                .fallback = offload::HostOptions().max_workers,
                                .help = "processes in which functions run, at most",
                                .min = 1,
                                .max = 1024});
  Option<Bytes> function_memory = schema.add<Bytes>({.name = "node.function_memory",
                                                     .fallback = offload::HostOptions().memory,
                                                     .help = "what each may have beside the extent",
                                                     .min = 1_MiB,
                                                     .max = 256_GiB});
  Option<Duration> function_time =
      schema.add<Duration>({.name = "node.function_time",
                            .fallback = offload::HostOptions().max_time,
                            .help = "how long a call may take, whatever the client says",
                            .min = std::chrono::milliseconds(1)});
  Option<Bytes> superblock =
      schema.add<Bytes>({.name = "node.superblock",
                         .fallback = 128_MiB,
                         .help = "memory is taken from the system in pieces of this size",
                         .min = 66_MiB,
                         .max = 64_GiB});
  Option<os::HugePages> huge_pages =
      schema.add_choice<os::HugePages>({.name = "node.huge_pages",
                                        .fallback = os::HugePages::kOff,
                                        .help = "2 MiB pages for objects",
                                        .choices = {{"off", os::HugePages::kOff},
                                                    {"if_available", os::HugePages::kIfAvailable},
                                                    {"require", os::HugePages::kRequire}}});
  Option<std::int64_t> pollers = schema.add<std::int64_t>({.name = "node.pollers",
                                                           .fallback = 1,
                                                           .help = "threads that serve each address",
                                                           .min = 1,
                                                           .max = 64});
  Option<Duration> spin =
      schema.add<Duration>({.name = "node.spin",
                            .fallback = node::NodeOptions().spin,
                            .help = "how long such a thread looks for work before it sleeps; less leaves "
                                    "more of the machine to functions",
                            .min = Duration(0)});
  Option<std::int64_t> max_connections = schema.add<std::int64_t>({.name = "node.max_connections",
                                                                   .fallback = 1024,
                                                                   .help = "clients per address",
                                                                   .min = 1,
                                                                   .max = 65536});
  Option<ValidatorChoice> validator =
      schema.add_choice<ValidatorChoice>({.name = "node.validator",
                                          .fallback = ValidatorChoice::kAuto,
                                          .help = "how one-sided readers prove what they copied",
                                          .choices = {{"auto", ValidatorChoice::kAuto},
                                                      {"reread", ValidatorChoice::kReread},
                                                      {"checksum", ValidatorChoice::kChecksum}}});
  Option<node::Remap> remap = schema.add_choice<node::Remap>(
      {.name = "node.remap",
       .fallback = node::Remap::kTable,
       .help = "how readers learn that a block has moved: by a table, or its address is remapped",
       .choices = {{"table", node::Remap::kTable}, {"mmap", node::Remap::kMmap}},
       .alias = "--remap"});
  Option<node::NicMapping> mapping =
      schema.add_choice<node::NicMapping>({.name = "node.mapping",
                                           .fallback = node::NicMapping::kAuto,
                                           .help = "how a NIC follows a remapped block (--remap=mmap)",
                                           .choices = {{"auto", node::NicMapping::kAuto},
                                                       {"odp_prefetch", node::NicMapping::kOdpPrefetch},
                                                       {"odp", node::NicMapping::kOdp},
                                                       {"rereg", node::NicMapping::kRereg}},
                                           .alias = "--mapping"});
  Option<node::Correction> correction = schema.add_choice<node::Correction>(
      {.name = "node.correction",
       .fallback = node::Correction::kScan,
       .help = "how the node finds objects that compaction displaced: by the headers of their frame, an "
               "index, or a message to the thread that owns their block",
       .choices = {{"scan", node::Correction::kScan},
                   {"index", node::Correction::kIndex},
                   {"owner", node::Correction::kOwner}},
       .alias = "--correction"});

  Option<std::string> keeper = schema.add<std::string>(
      {.name = "node.keeper",
       .help =
           "who holds the memory over a restart: the socket of a yonder-keeper, or systemd; empty: nobody",
       .alias = "--keeper"});
  Option<std::string> keeper_name = schema.add<std::string>(
      {.name = "node.keeper_name", .help = "under which name; empty: node-ID, with the node's id"});

  Option<bool> automatic = schema.add<bool>(
      {.name = "compaction.automatic", .fallback = true, .help = "compact classes that are fragmented"});
  Option<double> threshold = schema.add<double>({.name = "compaction.threshold",
                                                 .fallback = 1.25,
                                                 .help = "slots per live object from which a class is due",
                                                 .min = 1.0,
                                                 .max = 1000.0});
  Option<Bytes> min_waste = schema.add<Bytes>(
      {.name = "compaction.min_waste", .fallback = 1_MiB, .help = "… if so much memory could be saved"});
  Option<std::int64_t> slice_blocks = schema.add<std::int64_t>({.name = "compaction.slice_blocks",
                                                                .fallback = 64,
                                                                .help = "blocks moved at a time",
                                                                .min = 1,
                                                                .max = 1 << 20});
  Option<Duration> slice_time = schema.add<Duration>({.name = "compaction.slice_time",
                                                      .fallback = std::chrono::microseconds(200),
                                                      .help = "how long, at a time",
                                                      .min = std::chrono::microseconds(1)});
  Option<Duration> pause = schema.add<Duration>({.name = "compaction.pause",
                                                 .fallback = node::CompactionPolicy().pause,
                                                 .help = "between two slices",
                                                 .min = Duration(0)});
  Option<Duration> interval = schema.add<Duration>({.name = "compaction.interval",
                                                    .fallback = std::chrono::milliseconds(100),
                                                    .help = "between two looks at all classes",
                                                    .min = std::chrono::microseconds(100)});

  Option<std::string> admin =
      schema.add<std::string>({.name = "admin.listen",
                               .fallback = "127.0.0.1:7480",
                               .help = "host and port of /metrics, /health and /api/v1; empty for none",
                               .alias = "--admin"});
  Option<LogLevel> log_level = schema.add_choice<LogLevel>({.name = "log.level",
                                                            .fallback = LogLevel::kInfo,
                                                            .help = "the least that is logged",
                                                            .choices = {{"trace", LogLevel::kTrace},
                                                                        {"debug", LogLevel::kDebug},
                                                                        {"info", LogLevel::kInfo},
                                                                        {"warn", LogLevel::kWarn},
                                                                        {"error", LogLevel::kError},
                                                                        {"off", LogLevel::kOff}}});
  Option<LogFormat> log_format =
      schema.add_choice<LogFormat>({.name = "log.format",
                                    .fallback = LogFormat::kText,
                                    .help = "lines for people or for programs",
                                    .choices = {{"text", LogFormat::kText}, {"json", LogFormat::kJson}}});
  Option<std::string> log_file =
      schema.add<std::string>({.name = "log.file", .help = "appended to; empty for standard error"});
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    const auto begin = part.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    parts.push_back(part.substr(begin, part.find_last_not_of(' ') - begin + 1));
  }
  return parts;
}

std::optional<node::Validator> validator_of(ValidatorChoice choice) {
  switch (choice) {
    case ValidatorChoice::kReread:
      return node::Validator::kReread;
    case ValidatorChoice::kChecksum:
      return node::Validator::kChecksum;
    case ValidatorChoice::kAuto:
      break;
  }
  return std::nullopt;
}

node::CompactionPolicy policy_of(const Options& o, const Config& config) {
  return {.automatic = config.get(o.automatic),
          .threshold = config.get(o.threshold),
          .min_waste_bytes = config.get(o.min_waste).count(),
          .slice = {.blocks = static_cast<std::uint32_t>(config.get(o.slice_blocks)),
                    .time = config.get(o.slice_time)},
          .pause = config.get(o.pause),
          .interval = config.get(o.interval)};
}

DaemonSettings settings_of(const Options& o, const Config& config) {
  DaemonSettings out;
  out.listen = split(config.get(o.listen));
  out.admin = config.get(o.admin);
  out.keeper = config.get(o.keeper);
  out.keeper_name = config.get(o.keeper_name);
  if (out.keeper_name.empty()) out.keeper_name = fmt::format("node-{}", config.get(o.id));
  out.log = {
      .level = config.get(o.log_level), .format = config.get(o.log_format), .file = config.get(o.log_file)};
  out.node.heap.node = node::NodeId(static_cast<std::uint16_t>(config.get(o.id)));
  out.node.heap.limit = config.get(o.memory);
  out.node.extents.bytes = config.get(o.extents);
  out.node.extents.huge_pages = config.get(o.huge_pages);
  out.node.functions.directory = config.get(o.functions);
  out.node.functions.max_workers = static_cast<std::uint32_t>(config.get(o.function_workers));
  out.node.functions.memory = config.get(o.function_memory);
  out.node.functions.max_time = config.get(o.function_time);
  out.node.heap.superblock = config.get(o.superblock);
  out.node.heap.huge_pages = config.get(o.huge_pages);
  out.node.heap.correction = config.get(o.correction);
  out.node.heap.remap = config.get(o.remap);
  out.node.mapping = config.get(o.mapping);
  out.node.spin = config.get(o.spin);
  out.node.pollers = static_cast<std::uint32_t>(config.get(o.pollers));
  out.node.max_connections = static_cast<std::uint32_t>(config.get(o.max_connections));
  out.node.validator = validator_of(config.get(o.validator));
  out.node.compaction = policy_of(o, config);
  return out;
}

}  // namespace

std::expected<LoadedSettings, ConfigError> load_settings(const ConfigSources& sources) {
  const Options options;
  const auto config = load_config(options.schema, sources);
  if (!config) return std::unexpected(config.error());
  LoadedSettings out;
  if (config->help_requested()) {
    out.answer = "yonderd: a memory node.\n\n" + options.schema.help();
  } else if (config->version_requested()) {
    out.answer = "yonderd " YONDER_VERSION "\n";
  } else if (config->print_requested()) {
    out.answer = config->print();
  }
  out.settings = settings_of(options, *config);
  if (out.settings.listen.empty()) {
    return std::unexpected(
        ConfigError{config->origin(options.listen).where + ": node.listen names no address"});
  }
  return out;
}

}  // namespace yonder::apps
