#include "apps/rcached/settings.h"

#include <fmt/format.h>
#include <getopt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/rcached/extended_options.h"

namespace yonder::apps {
namespace {

constexpr const char* kHelp = R"(rcached: a memcached whose partitions can move
usage: rcached [options], with memcached's letters:
  -p, --port=NUM            TCP port (11211; 0: none; -1: one that is free)
  -s, --unix-socket=FILE    listen at a Unix socket instead of TCP
  -a, --unix-mask=MASK      access to that socket, in octal (700)
  -l, --listen=ADDRESS      where to listen: host or host:port, several by commas; "notls:" before one
                            leaves it without TLS (all interfaces)
  -U, --udp-port=0          there is no UDP: 0 only
  -d, --daemon              run in the background
  -u, --user=USER           as this user (when started as root)
  -P, --pidfile=FILE        write the process id there
  -r, --enable-coredumps    no limit on core files
  -m, --memory-limit=MB     memory for items (64)
  -C, --disable-cas         show no CAS numbers: gets says 0, cas says EXISTS
  -M, --disable-evictions   refuse new items when the memory is full, rather than drop old ones
  -I, --max-item-size=SIZE  the largest item, as 1m or 512k (1m; 1k to 1024m)
  -k, --lock-memory         keep all memory out of swap
  -c, --conn-limit=NUM      connections at the same time (1024)
  -t, --threads=NUM         threads that serve them (4)
  -b, --listen-backlog=NUM  clients that may wait to be accepted (1024)
  -B, --protocol=NAME       ascii or auto; there is no binary protocol
  -A, --enable-shutdown     allow the command shutdown
  -F, --disable-flush-all   refuse the command flush_all
  -X, --disable-dumping     refuse stats cachedump and lru_crawler metadump
  -W, --disable-watch       refuse watch, which is refused anyway
  -D CHAR                   count by key prefix up to this character
  -Y, --auth-file=FILE      clients must log in; lines user:password
  -Z, --enable-ssl          TLS, with -o ssl_chain_cert=… and further
  -o, --extended=LIST       idle_timeout=SECONDS, no_lru_crawler, hot_lru_pct=N, warm_lru_pct=N,
                            hot_max_factor=N, warm_max_factor=N,
                            ssl_chain_cert=FILE, ssl_key=FILE, ssl_ca_cert=FILE, ssl_ciphers=LIST,
                            ssl_verify_mode=0..3, ssl_min_version=2|3, ssl_session_cache
  -v, -vv, -vvv             say more
  -h, --help   -V, --version
and of its own:
      --partitions=NUM      shares of the keys, a power of two (128)
      --admin=HOST:PORT     HTTP: /metrics, /health and, in a cluster, /api/v1/… (none)
      --cluster=ADDRESS     begin a cluster; others join it there, as tcp://10.0.0.1:7500
      --join=ADDRESS        join the cluster that was begun there
      --advertise=HOST:PORT where other servers reach this one (the first of -l)
      --keep-until-complete a third server keeps a copy of a partition until it has arrived: a
                            server that dies then takes nothing with it
      --cluster-key=FILE    servers prove to each other that they know this key (16 to 64 bytes in
                            hexadecimal), and all that they say is encrypted; needed with -Y and -Z
      --balance             move partitions by themselves when servers are unequally busy (with --cluster)
      --agent=ADDRESS       where partitions are handed over (tcp://127.0.0.1:0; shm: on one host)
      --pull-limit=MB       of a partition that comes here, fetch at most so much per second ahead of use
)";

enum LongOnly : int {
  kPartitions = 1000,
  kAdmin,
  kCluster,
  kJoin,
  kAdvertise,
  kAgent,
  kBalance,
  kKeep,
  kKey,
  kPullLimit
};

constexpr std::array kLongOptions = {
    option{"port", required_argument, nullptr, 'p'},
    option{"udp-port", required_argument, nullptr, 'U'},
    option{"unix-socket", required_argument, nullptr, 's'},
    option{"unix-mask", required_argument, nullptr, 'a'},
    option{"enable-shutdown", no_argument, nullptr, 'A'},
    option{"listen", required_argument, nullptr, 'l'},
    option{"daemon", no_argument, nullptr, 'd'},
    option{"enable-coredumps", no_argument, nullptr, 'r'},
    option{"user", required_argument, nullptr, 'u'},
    option{"memory-limit", required_argument, nullptr, 'm'},
    option{"disable-evictions", no_argument, nullptr, 'M'},
    option{"conn-limit", required_argument, nullptr, 'c'},
    option{"lock-memory", no_argument, nullptr, 'k'},
    option{"verbose", no_argument, nullptr, 'v'},
    option{"help", no_argument, nullptr, 'h'},
    option{"version", no_argument, nullptr, 'V'},
    option{"pidfile", required_argument, nullptr, 'P'},
    option{"slab-growth-factor", required_argument, nullptr, 'f'},
    option{"slab-min-size", required_argument, nullptr, 'n'},
    option{"enable-largepages", no_argument, nullptr, 'L'},
    option{"threads", required_argument, nullptr, 't'},
    option{"max-reqs-per-event", required_argument, nullptr, 'R'},
    option{"disable-cas", no_argument, nullptr, 'C'},
    option{"listen-backlog", required_argument, nullptr, 'b'},
    option{"protocol", required_argument, nullptr, 'B'},
    option{"max-item-size", required_argument, nullptr, 'I'},
    option{"enable-sasl", no_argument, nullptr, 'S'},
    option{"disable-flush-all", no_argument, nullptr, 'F'},
    option{"disable-dumping", no_argument, nullptr, 'X'},
    option{"disable-watch", no_argument, nullptr, 'W'},
    option{"auth-file", required_argument, nullptr, 'Y'},
    option{"memory-file", required_argument, nullptr, 'e'},
    option{"enable-ssl", no_argument, nullptr, 'Z'},
    option{"extended", required_argument, nullptr, 'o'},
    option{"napi_ids", required_argument, nullptr, 'N'},
    option{"partitions", required_argument, nullptr, kPartitions},
    option{"admin", required_argument, nullptr, kAdmin},
    option{"cluster", required_argument, nullptr, kCluster},
    option{"join", required_argument, nullptr, kJoin},
    option{"advertise", required_argument, nullptr, kAdvertise},
    option{"agent", required_argument, nullptr, kAgent},
    option{"cluster-key", required_argument, nullptr, kKey},
    option{"pull-limit", required_argument, nullptr, kPullLimit},
    option{"balance", no_argument, nullptr, kBalance},
    option{"keep-until-complete", no_argument, nullptr, kKeep},
    option{nullptr, 0, nullptr, 0},
};
constexpr const char* kShortOptions = "p:U:s:a:Al:dru:m:Mc:kvhVP:f:n:Lt:R:Cb:B:I:SFXWY:e:Zo:N:D:";

// Collects what the flags say, and puts it together at the end.
class Flags {
 public:
  // An empty string: fine.
  std::string take(int letter, const std::string& value);
  std::string finish(CacheSettings& out);

 private:
  std::string number(const std::string& value, const char* what, std::int64_t least, std::int64_t most,
                     std::int64_t& to);
  std::string item_size(const std::string& value);
  std::string take_more(int letter, const std::string& value);
  std::string join_cluster();
  std::string check_cluster() const;
  void listen_on_tcp();
  void fit_partitions();

  CacheSettings settings_;
  std::int64_t port_ = 11211;
  std::string unix_path_;
  std::uint32_t unix_mask_ = 0700;
  std::vector<std::string> listen_;
  std::int64_t verbosity_ = 0;
  std::string binding_ = "ascii";
  bool partitions_given_ = false;
};

std::string Flags::number(const std::string& value, const char* what, std::int64_t least, std::int64_t most,
                          std::int64_t& to) {
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, to);
  if (error == std::errc() && stop == end && to >= least && to <= most) return {};
  return fmt::format("{} must be a number from {} to {}, not \"{}\"", what, least, most, value);
}

std::string Flags::item_size(const std::string& value) {
  std::string digits = value;
  std::int64_t unit = 1;
  if (!digits.empty() && (digits.back() == 'k' || digits.back() == 'K')) unit = 1 << 10;
  if (!digits.empty() && (digits.back() == 'm' || digits.back() == 'M')) unit = 1 << 20;
  if (unit != 1) digits.pop_back();
  std::int64_t size = 0;
  constexpr std::int64_t kLeast = 1 << 10;
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (std::string wrong = number(digits, "-I", 1, kMost, size); !wrong.empty()) return wrong;
  if (size * unit < kLeast || size * unit > kMost) return "-I must be from 1k to 1024m";
  settings_.store.policy.max_item_bytes = static_cast<std::size_t>(size * unit);
  return {};
}

std::string Flags::take(int letter, const std::string& value) {
  std::int64_t given = 0;
  std::string wrong;
  switch (letter) {
    case 'p':
      return number(value, "-p", -1, 65535, port_);
    case 'U':
      wrong = number(value, "-U", 0, 65535, given);
      return !wrong.empty() || given == 0 ? wrong : "there is no UDP: -U takes 0 only";
    case 's':
      unix_path_ = value;
      return {};
    case 'a': {
      const char* end = value.data() + value.size();
      const auto [stop, error] = std::from_chars(value.data(), end, unix_mask_, 8);
      return error == std::errc() && stop == end && unix_mask_ <= 0777 ? ""
                                                                       : "-a is an octal number up to 777";
    }
    case 'l':
      for (std::size_t begin = 0; begin <= value.size();) {
        const std::size_t end = std::min(value.find(',', begin), value.size());
        if (end > begin) listen_.push_back(value.substr(begin, end - begin));
        begin = end + 1;
      }
      return {};
    case 'm':
      wrong = number(value, "-m", 1, 1 << 25, given);
      settings_.store.memory_bytes = static_cast<std::size_t>(given) << 20;
      return wrong;
    case 'c':
      wrong = number(value, "-c", 1, 1 << 24, given);
      settings_.server.max_connections = static_cast<std::size_t>(given);
      return wrong;
    case 't':
      wrong = number(value, "-t", 1, 256, given);
      settings_.server.threads = static_cast<std::size_t>(given);
      return wrong;
    case 'b':
      wrong = number(value, "-b", 1, 1 << 20, given);
      settings_.server.backlog = static_cast<int>(given);
      return wrong;
    case 'I':
      return item_size(value);
    case kPartitions:
      wrong = number(value, "--partitions", 1, 1 << 14, given);
      if (wrong.empty() && (given & (given - 1)) != 0) return "--partitions must be a power of two";
      settings_.store.partitions = static_cast<std::size_t>(given);
      partitions_given_ = true;
      return wrong;
    case kCluster:
      settings_.cluster.serve_at = value;
      return join_cluster();
    case kJoin:
      settings_.cluster.directory = value;
      return join_cluster();
    case kAdvertise:
      settings_.cluster.server = value;
      return {};
    case kKey:
      settings_.cluster_key = value;
      return {};
    case kBalance:
      settings_.cluster.balance = true;
      return {};
    case kKeep:
      settings_.cluster.keep_until_complete = true;
      return {};
    case kAgent:
      settings_.cluster.agent = value;
      return {};
    case kPullLimit:
      wrong = number(value, "--pull-limit", 1, 1 << 20, given);
      settings_.cluster.pull_bytes_per_second = static_cast<std::uint64_t>(given) << 20;
      return wrong;
    default:
      return take_more(letter, value);
  }
}

std::string Flags::join_cluster() {
  if (std::exchange(settings_.in_cluster, true)) return "--cluster and --join: one of them, once";
  // Partitions come from the cluster.
  settings_.store.own_all = false;
  return {};
}

std::string Flags::check_cluster() const {
  const bool has_key = !settings_.cluster_key.empty();
  if (has_key && !settings_.in_cluster) return "--cluster-key goes with --cluster or --join";
  if (settings_.in_cluster && !has_key && (settings_.use_tls || !settings_.auth_file.empty()))
    return "servers of a cluster whose clients use TLS or passwords need a --cluster-key to talk to each "
           "other";
  return {};
}

std::string Flags::take_more(int letter, const std::string& value) {
  switch (letter) {
    case 'A':
      settings_.service.allow_shutdown = true;
      return {};
    case 'M':
      settings_.store.policy.evict = false;
      return {};
    case 'F':
      settings_.service.allow_flush = false;
      return {};
    case 'X':
      settings_.service.allow_dump = false;
      return {};
    case 'W':
      return {};
    case 'd':
      settings_.daemonize = true;
      return {};
    case 'r':
      settings_.core_dumps = true;
      return {};
    case 'k':
      settings_.lock_memory = true;
      return {};
    case 'v':
      ++verbosity_;
      return {};
    case 'u':
      settings_.user = value;
      return {};
    case 'P':
      settings_.pid_file = value;
      return {};
    case 'D':
      if (value.size() != 1) return "-D takes one character";
      settings_.service.prefix_delimiter = value[0];
      settings_.service.prefix_stats = true;
      return {};
    case 'B':
      binding_ = value == "auto" ? "auto-negotiate" : value;
      if (value == "ascii" || value == "auto") return {};
      return "there is no binary protocol: -B takes ascii or auto";
    case 'Y':
      settings_.auth_file = value;
      return {};
    case 'Z':
      settings_.use_tls = true;
      return {};
    case 'o':
      return apply_extended(value, settings_);
    case kAdmin:
      settings_.admin = value;
      return {};
    case 'f':
    case 'n':
    case 'L':
    case 'R':
      settings_.without_effect.push_back(fmt::format("-{}", static_cast<char>(letter)));
      return {};
    case 'C':
      settings_.service.use_cas = false;
      return {};
    case 'S':
      return "SASL belongs to the binary protocol, which is not there: use -Y or TLS";
    case 'e':
      return "items are kept in memory only: there is no -e";
    case 'N':
      return "there are no napi ids: there is no -N";
    default:
      return "unknown option; -h lists those that are known";
  }
}

void Flags::listen_on_tcp() {
  if (listen_.empty()) listen_.push_back("0.0.0.0");
  for (std::string place : listen_) {
    const bool plain = place.starts_with("notls:");
    if (plain) place = place.substr(6);
    const bool bracketed = place.starts_with('[');
    const bool has_port = bracketed
                              ? place.find("]:") != std::string::npos
                              : place.find(':') == place.rfind(':') && place.find(':') != std::string::npos;
    if (!has_port && !bracketed && place.find(':') != std::string::npos) place = "[" + place + "]";
    if (!has_port) place += fmt::format(":{}", port_ < 0 ? 0 : port_);
    settings_.server.listen.push_back({.address = place, .tls = settings_.use_tls && !plain});
  }
}

// A partition takes memory before it has items: a quarter of it all at most, where it is little.
void Flags::fit_partitions() {
  constexpr std::size_t kEmptyBytes = std::size_t{32} << 10;
  if (partitions_given_ || settings_.in_cluster) return;
  const std::size_t most = std::bit_floor(settings_.store.memory_bytes / 4 / kEmptyBytes);
  settings_.store.partitions = std::min(settings_.store.partitions, most);
}

std::string Flags::finish(CacheSettings& out) {
  if (!unix_path_.empty()) {
    const std::string path =
        unix_path_.starts_with('/') || unix_path_.starts_with('@') ? unix_path_ : "./" + unix_path_;
    settings_.server.listen.push_back({.address = path, .unix_mode = unix_mask_});
  } else if (port_ != 0) {
    listen_on_tcp();
  }
  if (settings_.server.listen.empty()) return "nothing to listen at: -p 0 needs -s";
  if (settings_.use_tls && settings_.tls.chain_cert.empty()) return "-Z needs -o ssl_chain_cert=FILE";
  if (const std::string wrong = check_cluster(); !wrong.empty()) return wrong;
  fit_partitions();
  if (settings_.store.policy.max_item_bytes > settings_.store.memory_bytes / 2) {
    return "-I may be at most half of -m";
  }
  cache::ServiceOptions& service = settings_.service;
  service.memory_bytes = settings_.store.memory_bytes;
  service.max_item_bytes = settings_.store.policy.max_item_bytes;
  service.servers_have_key = !settings_.cluster_key.empty();
  service.verbosity = static_cast<std::uint32_t>(std::min<std::int64_t>(verbosity_, 2));
  const auto show = [&](const char* name, std::string value) {
    service.shown.emplace_back(name, std::move(value));
  };
  show("maxconns", fmt::format("{}", settings_.server.max_connections));
  show("tcpport", fmt::format("{}", unix_path_.empty() ? port_ : 0));
  show("udpport", "0");
  show("inter", listen_.empty() ? "NULL" : listen_.front());
  show("domain_socket", unix_path_.empty() ? "NULL" : unix_path_);
  show("umask", fmt::format("{:o}", unix_mask_));
  show("num_threads", fmt::format("{}", settings_.server.threads));
  show("tcp_backlog", fmt::format("{}", settings_.server.backlog));
  show("binding_protocol", binding_);
  show("idle_timeout", fmt::format("{}", settings_.server.idle_timeout.count() / 1'000'000'000));
  show("ssl_enabled", settings_.use_tls ? "yes" : "no");
  out = std::move(settings_);
  return {};
}

}  // namespace

std::expected<SettingsAnswer, std::string> parse_settings(int argc, char** argv) {
  SettingsAnswer out;
  Flags flags;
  opterr = 0;
  optind = 1;
  for (;;) {
    const int letter = ::getopt_long(argc, argv, kShortOptions, kLongOptions.data(), nullptr);
    if (letter == -1) break;
    if (letter == 'h') out.answer = kHelp;
    if (letter == 'V')
      out.answer =
          fmt::format("rcached {} (protocol of memcached {})\n", YONDER_VERSION, cache::kProtocolVersion);
    if (!out.answer.empty()) return out;
    const std::string value = optarg == nullptr ? "" : optarg;
    const std::string wrong =
        letter == '?'
            ? fmt::format("\"{}\" is unknown or lacks its value; -h lists the options", argv[optind - 1])
            : flags.take(letter, value);
    if (!wrong.empty()) return std::unexpected(wrong);
  }
  if (optind < argc) return std::unexpected(fmt::format("\"{}\" is no option", argv[optind]));
  if (const std::string wrong = flags.finish(out.settings); !wrong.empty()) return std::unexpected(wrong);
  return out;
}

}  // namespace yonder::apps
