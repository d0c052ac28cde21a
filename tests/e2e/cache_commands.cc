#include "tests/e2e/cache_commands.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace yonder::e2e {
namespace {

constexpr int kKeys = 24;
// A CAS number that neither server will ever reach.
constexpr std::uint64_t kNoCas = std::uint64_t{1} << 60;

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The next piece of a reply: up to a space or the end of a line, with it.
std::string_view next_piece(std::string_view& rest) {
  const std::size_t end = std::min(rest.find_first_of(" \n"), rest.size());
  const std::string_view piece = rest.substr(0, end + (end < rest.size() ? 1 : 0));
  rest.remove_prefix(piece.size());
  return piece;
}

std::string_view trimmed(std::string_view piece) {
  while (!piece.empty() && (piece.back() == ' ' || piece.back() == '\n' || piece.back() == '\r')) {
    piece.remove_suffix(1);
  }
  return piece;
}

}  // namespace

// ---------------------------------------------------------------- CAS numbers

bool CasTwins::match(const std::string& key, std::uint64_t first, std::uint64_t second) {
  if (first == 0 || second == 0) return first == second;
  if (key.empty()) return true;
  Pairs& pairs = keys_[key];
  const auto [by_first, new_first] = pairs.by_first.emplace(first, second);
  const auto [by_second, new_second] = pairs.by_second.emplace(second, first);
  return by_first->second == second && by_second->second == first;
}

std::pair<std::uint64_t, std::uint64_t> CasTwins::draw(const std::string& key, Prng& prng) const {
  const auto found = keys_.find(key);
  if (found == keys_.end() || found->second.by_first.empty()) return {kNoCas, kNoCas};
  auto at = std::prev(found->second.by_first.end());
  while (at != found->second.by_first.begin() && prng.chance(0.4)) --at;
  return *at;
}

// ---------------------------------------------------------------- commands

const std::string& CommandSource::key() {
  key_ = "key" + std::to_string(prng_.below(kKeys));
  return key_;
}

std::string CommandSource::value(bool may_be_number) {
  // Numbers are frequent, so that arithmetic finds some; what is appended is none, so that
  // they stay short.
  // Below 2^63 and never white space alone: there memcached looks for a sign, or for the
  // number, in whatever follows the value in its memory.
  if (may_be_number && prng_.chance(0.4)) return std::to_string(prng_() >> (1 + prng_.below(63)));
  std::size_t bytes = prng_.below(40);
  if (prng_.chance(0.1)) bytes = prng_.below(3000);
  if (prng_.chance(0.02)) bytes = 7000 + prng_.below(60000);
  std::string out(bytes, ' ');
  for (char& c : out) c = one_of({'a', 'b', ' ', '0', '9', '\r', '\n', '-', '\0', 'z'});
  if (!out.empty()) out.front() = may_be_number ? out.front() : 'a';
  if (!out.empty()) out.back() = 'e';
  return out;
}

std::string CommandSource::exptime() {
  // Nothing that could expire between the two servers' replies.
  return one_of<const char*>({"0", "0", "0", "-1", "1000", "2592000", "2592001", "4000000000"});
}

void CommandSource::append_flags(TwinCommand& command, std::vector<std::string> flags, double chance) {
  for (std::size_t i = flags.size(); i > 1; --i) std::swap(flags[i - 1], flags[prng_.below(i)]);
  for (const std::string& flag : flags) {
    if (!prng_.chance(chance)) continue;
    if (flag != "C") {
      command.append(" " + flag);
      continue;
    }
    const auto [first, second] = twins_.draw(command.key, prng_);
    command.first += " C" + std::to_string(first);
    command.second += " C" + std::to_string(second);
  }
}

TwinCommand CommandSource::storage() {
  TwinCommand out{.key = key()};
  const std::string mode = one_of<const char*>({"set", "set", "add", "replace", "append", "prepend", "cas"});
  const std::string data = value(!mode.ends_with("pend"));
  const std::string flags = one_of<const char*>({"0", "0", "5", "4294967295", "4294967296"});
  out.append(mode + " " + out.key + " " + flags + " " + exptime() + " " + std::to_string(data.size()));
  if (mode == "cas") {
    const auto [first, second] = twins_.draw(out.key, prng_);
    out.first += " " + std::to_string(first);
    out.second += " " + std::to_string(second);
  }
  out.append(noreply() + "\r\n" + data + "\r\n");
  return out;
}

TwinCommand CommandSource::retrieval() {
  TwinCommand out{.key = key()};
  const std::string command = one_of<const char*>({"get", "gets", "gat", "gats"});
  out.append(command);
  if (command[1] == 'a') out.append(" " + exptime());
  // CAS numbers belong to the first key; the others of gets are the same one.
  out.append(" " + out.key);
  const std::size_t more = prng_.chance(0.3) ? prng_.below(40) : 0;
  for (std::size_t i = 0; i < more; ++i)
    out.append(" " + (command.ends_with('s') ? out.key : std::string(key())));
  out.append("\r\n");
  return out;
}

TwinCommand CommandSource::arithmetic() {
  TwinCommand out{.key = key()};
  out.append(one_of<const char*>({"incr ", "decr "}) + out.key + " " +
             one_of<const char*>({"1", "0", "10", "1000000007", "x", "-1", ""}) + noreply() + "\r\n");
  return out;
}

TwinCommand CommandSource::other() {
  TwinCommand out{.key = key()};
  if (prng_.chance(0.5)) {
    out.append("delete " + out.key + one_of<const char*>({"", "", " 0", " 5", " noreply", " 0 noreply"}) +
               "\r\n");
  } else {
    out.append("touch " + out.key + " " + (prng_.chance(0.1) ? "x" : exptime()) + noreply() + "\r\n");
  }
  return out;
}

TwinCommand CommandSource::meta_get() {
  TwinCommand out{.key = key()};
  out.append("mg " + out.key);
  append_flags(out, {"v", "c", "f", "h", "k", "s", "t", "u", "q", "O12", "l", "P1", "Lx"}, 0.3);
  append_flags(out, {"N1000", "R2000", "R30", "T1000"}, 0.12);
  out.append("\r\n");
  return out;
}

TwinCommand CommandSource::meta_set() {
  TwinCommand out{.key = key()};
  const std::string mode = one_of<const char*>({"", "", "", " ME", " MA", " MP", " MR", " MS", " MX", " M"});
  const std::string data = value(mode != " MA" && mode != " MP");
  out.append("ms " + out.key + " " + std::to_string(data.size()));
  append_flags(out, {"c", "k", "Oopaque", "q", "I", "F77", "T1000", "C"}, 0.25);
  out.append(mode + "\r\n" + data + "\r\n");
  return out;
}

TwinCommand CommandSource::meta_delete() {
  TwinCommand out{.key = key()};
  out.append("md " + out.key);
  append_flags(out, {"k", "Oo", "q", "I", "T1000", "C"}, 0.3);
  out.append("\r\n");
  return out;
}

TwinCommand CommandSource::meta_arithmetic() {
  TwinCommand out{.key = key()};
  out.append("ma " + out.key);
  append_flags(out, {"v", "c", "k", "t", "q", "Oo", "N1000", "J7", "C"}, 0.3);
  append_flags(out, {"D5", "D1000000007", "Dx"}, 0.1);
  // T only where the number cannot get longer: there memcached sets the time of the item it
  // has just replaced.
  out.append(one_of<const char*>({"", "", " MI", " M+", " MD", " M- T1000", " MZ"}));
  out.append("\r\n");
  return out;
}

TwinCommand CommandSource::administration() {
  TwinCommand out{.key = key()};
  if (prng_.chance(0.3)) {
    out.append("me " + out.key + "\r\n");
  } else {
    out.append(one_of<const char*>({"version\r\n", "mn\r\n", "verbosity 0\r\n", "verbosity x\r\n",
                                    "flush_all\r\n", "flush_all noreply\r\n", "flush_all x\r\n",
                                    "cache_memlimit 64\r\n", "cache_memlimit 1\r\n", "stats bogus\r\n",
                                    "stats reset\r\n", "stats detail\r\n", "slabs automove 1\r\n",
                                    "lru tune 20 40 0.2 2.0\r\n", "lru tune 50 50 1 1\r\n", "lru_crawler\r\n",
                                    "lru_crawler tocrawl 0\r\n", "shutdown\r\n", "refresh_certs\r\n"}));
  }
  return out;
}

TwinCommand CommandSource::binary_key() {
  // Not with append, N or arithmetic: memcached forgets there that the key is binary.
  const std::string key = one_of<const char*>({"YQ==", "YWI=", "YWJj", "////", "AAECAwQF"});
  TwinCommand out{.key = key};
  switch (prng_.below(3)) {
    case 0:
      out.append("mg " + key + " b k v c\r\n");
      break;
    case 1:
      out.append("ms " + key + " 3 b k c\r\nbin\r\n");
      break;
    default:
      out.append("md " + key + " b k q\r\n");
  }
  return out;
}

TwinCommand CommandSource::wrong() {
  // A good command with its line damaged; no digit is put in, so that no length grows.
  TwinCommand out;
  do {
    out = next();
  } while (out.first != out.second || out.padded);
  std::string line = out.first.substr(0, out.first.find('\n'));
  const std::string rest = out.first.substr(line.size());
  const std::size_t at = prng_.below(line.size() + 1);
  const char c = one_of({' ', 'x', 'k', '-', '\0', '\t', '\r', '+', '\x7f', '\xff'});
  switch (prng_.below(4)) {
    case 0:
      line.insert(at, 1, c);
      break;
    case 1:
      line.erase(std::min(at, line.size() - 1), 1);
      break;
    case 2:
      line[std::min(at, line.size() - 1)] = c;
      break;
    default:
      line.insert(at, std::string(260, 'k'));
  }
  return {.first = line + rest, .second = line + rest, .padded = true};
}

TwinCommand CommandSource::garbage() {
  TwinCommand out{.padded = true};
  std::string text(prng_.below(80), ' ');
  for (char& c : text) c = static_cast<char>(prng_.below(256));
  // Without digits: see wrong().
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  out.append(text + "\r\n");
  return out;
}

TwinCommand CommandSource::next() {
  switch (prng_.below(24)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return storage();
    case 4:
    case 5:
    case 6:
      return retrieval();
    case 7:
    case 8:
      return arithmetic();
    case 9:
      return other();
    case 10:
    case 11:
    case 12:
      return meta_get();
    case 13:
    case 14:
    case 15:
      return meta_set();
    case 16:
      return meta_delete();
    case 17:
    case 18:
      return meta_arithmetic();
    case 19:
      return administration();
    case 20:
      return binary_key();
    case 21:
    case 22:
      return wrong();
    default:
      return garbage();
  }
}

TwinCommand CommandSource::batch() {
  TwinCommand out{.key = key()};
  const std::uint64_t count = 2 + prng_.below(20);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string name = key();
    const std::string data = value();
    switch (prng_.below(4)) {
      case 0:
        out.append("set " + name + " 3 0 " + std::to_string(data.size()) + noreply() + "\r\n" + data +
                   "\r\n");
        break;
      case 1:
        out.append("get " + name + " nothing " + std::string(key()) + "\r\n");
        break;
      case 2:
        out.append("mg " + name + " v f k q\r\n");
        break;
      default:
        out.append("delete " + name + "\r\n");
    }
  }
  return out;
}

// ---------------------------------------------------------------- replies

namespace {

// "c12", "cas=12", "t30" …: the name, and its number.
struct Named {
  std::string_view name;
  std::int64_t number;
};
std::optional<Named> named(std::string_view word) {
  for (const std::string_view name : {"cas=", "exp=", "la=", "cls=", "size=", "c", "t", "l"}) {
    if (!word.starts_with(name)) continue;
    if (const auto value = number(word.substr(name.size()))) return Named{name, *value};
  }
  return std::nullopt;
}

// The words of a line that may differ, and how much.
bool same_word(const std::string& key, std::string_view first, std::string_view second, CasTwins& twins) {
  if (first == second && !first.starts_with("c")) return true;
  const auto a = named(first);
  const auto b = named(second);
  if (!a || !b || a->name != b->name) return first == second;
  if (a->name == "c" || a->name == "cas=") {
    return twins.match(key, static_cast<std::uint64_t>(a->number), static_cast<std::uint64_t>(b->number));
  }
  // Seconds may tick between the two.
  if (a->name == "t" || a->name == "exp=") return std::abs(a->number - b->number) <= 2;
  // When an item was last read depends on the lists it went through; class and size on
  // how the server keeps it.
  return true;
}

bool same_line(const std::string& key, std::string_view first, std::string_view second, CasTwins& twins) {
  // "VALUE key flags bytes [cas]"
  const bool value = first.starts_with("VALUE ");
  for (int i = 0; !first.empty() || !second.empty(); ++i) {
    const std::string_view a = next_piece(first);
    const std::string_view b = next_piece(second);
    const std::string_view word_a = trimmed(a);
    const std::string_view word_b = trimmed(b);
    if (a.substr(word_a.size()) != b.substr(word_b.size())) return false;
    if (value && i == 4) {
      const auto cas_a = number(word_a);
      const auto cas_b = number(word_b);
      if (!cas_a || !cas_b) return false;
      if (!twins.match(key, static_cast<std::uint64_t>(*cas_a), static_cast<std::uint64_t>(*cas_b)))
        return false;
    } else if (!same_word(key, word_a, word_b, twins)) {
      return false;
    }
  }
  return true;
}

// The length of the value behind a line, with its end; 0 if there is none.
std::size_t value_behind(std::string_view line) {
  const bool classic = line.starts_with("VALUE ");
  if (!classic && !line.starts_with("VA ")) return 0;
  std::string_view word;
  for (int i = 0; i < (classic ? 4 : 2); ++i) word = trimmed(next_piece(line));
  return static_cast<std::size_t>(number(word).value_or(0)) + 2;
}

// A damaged command can become a `stats`. What servers say of themselves differs, and is compared
// by tests of its own.
bool is_report(std::string_view reply) { return reply.starts_with("STAT pid "); }
void skip_report(std::string_view& reply) {
  constexpr std::string_view kEnd = "\r\nEND\r\n";
  const std::size_t end = reply.find(kEnd);
  reply.remove_prefix(end == std::string_view::npos ? reply.size() : end + kEnd.size());
}

}  // namespace

bool same_reply(const std::string& key, std::string_view first, std::string_view second, CasTwins& twins,
                std::string& why) {
  while (!first.empty() || !second.empty()) {
    if (is_report(first) && is_report(second)) {
      skip_report(first);
      skip_report(second);
      continue;
    }
    const std::string_view line_a = first.substr(0, std::min(first.find('\n'), first.size() - 1) + 1);
    const std::string_view line_b = second.substr(0, std::min(second.find('\n'), second.size() - 1) + 1);
    const std::size_t bytes = line_a.size() + value_behind(line_a);
    const bool same = !first.empty() && !second.empty() && same_line(key, line_a, line_b, twins) &&
                      first.substr(line_a.size(), bytes - line_a.size()) ==
                          second.substr(line_b.size(), bytes - line_a.size());
    if (!same) {
      why = "memcached: \"" + std::string(line_a) + "\" rcached: \"" + std::string(line_b) + "\"";
      return false;
    }
    first.remove_prefix(std::min(bytes, first.size()));
    second.remove_prefix(std::min(line_b.size() + bytes - line_a.size(), second.size()));
  }
  return true;
}

}  // namespace yonder::e2e
