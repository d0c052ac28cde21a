// A program as users of libmemcached write it: `e2e_libmemcached HOST PORT` goes through the
// operations of that library against a server and says "ok", or what went wrong.
#include <libmemcached/memcached.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

[[noreturn]] void fail(const char* what, memcached_st* memc, memcached_return_t code) {
  std::printf("%s: %s\n", what, memcached_strerror(memc, code));
  std::exit(1);
}

void expect(bool condition, const char* what, memcached_st* memc, memcached_return_t code) {
  if (!condition) fail(what, memc, code);
}

std::string get(memcached_st* memc, const std::string& key, std::uint32_t* flags, memcached_return_t* code) {
  std::size_t length = 0;
  char* value = memcached_get(memc, key.data(), key.size(), &length, flags, code);
  std::string out(value == nullptr ? "" : value, length);
  std::free(value);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  memcached_st* memc = memcached_create(nullptr);
  memcached_behavior_set(memc, MEMCACHED_BEHAVIOR_SUPPORT_CAS, 1);
  memcached_return_t code = memcached_server_add(memc, argv[1], static_cast<in_port_t>(std::atoi(argv[2])));
  expect(code == MEMCACHED_SUCCESS, "server_add", memc, code);

  for (int i = 0; i < 500; ++i) {
    const std::string key = "lib:" + std::to_string(i);
    const std::string value(static_cast<std::size_t>(i * 37), static_cast<char>('a' + i % 26));
    code = memcached_set(memc, key.data(), key.size(), value.data(), value.size(), 0,
                         static_cast<std::uint32_t>(i));
    expect(code == MEMCACHED_SUCCESS, "set", memc, code);
    std::uint32_t flags = 0;
    const std::string read = get(memc, key, &flags, &code);
    expect(code == MEMCACHED_SUCCESS && read == value && flags == static_cast<std::uint32_t>(i), "get", memc,
           code);
  }

  const char* keys[] = {"lib:1", "lib:2", "missing", "lib:3"};
  const std::size_t lengths[] = {5, 5, 7, 5};
  code = memcached_mget(memc, keys, lengths, 4);
  expect(code == MEMCACHED_SUCCESS, "mget", memc, code);
  int found = 0;
  std::uint64_t cas = 0;
  memcached_result_st result;
  memcached_result_create(memc, &result);
  while (memcached_fetch_result(memc, &result, &code) != nullptr) {
    ++found;
    if (std::strncmp(memcached_result_key_value(&result), "lib:1", 5) == 0)
      cas = memcached_result_cas(&result);
  }
  expect(found == 3 && cas != 0, "fetch_result", memc, code);
  memcached_result_free(&result);

  code = memcached_cas(memc, "lib:1", 5, "new", 3, 0, 0, cas);
  expect(code == MEMCACHED_SUCCESS, "cas", memc, code);
  code = memcached_cas(memc, "lib:1", 5, "old", 3, 0, 0, cas);
  expect(code == MEMCACHED_DATA_EXISTS, "cas with an old number", memc, code);
  code = memcached_add(memc, "lib:1", 5, "x", 1, 0, 0);
  expect(code == MEMCACHED_NOTSTORED, "add", memc, code);
  code = memcached_append(memc, "lib:1", 5, "er", 2, 0, 0);
  expect(code == MEMCACHED_SUCCESS && get(memc, "lib:1", nullptr, &code) == "newer", "append", memc, code);
  code = memcached_set(memc, "n", 1, "41", 2, 0, 0);
  std::uint64_t number = 0;
  code = memcached_increment(memc, "n", 1, 1, &number);
  expect(code == MEMCACHED_SUCCESS && number == 42, "increment", memc, code);
  code = memcached_touch(memc, "n", 1, 100);
  expect(code == MEMCACHED_SUCCESS, "touch", memc, code);
  code = memcached_delete(memc, "n", 1, 0);
  expect(code == MEMCACHED_SUCCESS, "delete", memc, code);
  get(memc, "n", nullptr, &code);
  expect(code == MEMCACHED_NOTFOUND, "get after delete", memc, code);
  memcached_stat_st* stats = memcached_stat(memc, nullptr, &code);
  expect(code == MEMCACHED_SUCCESS && stats != nullptr && stats[0].curr_items >= 500, "stat", memc, code);
  memcached_stat_free(memc, stats);
  code = memcached_version(memc);
  expect(code == MEMCACHED_SUCCESS, "version", memc, code);
  code = memcached_flush(memc, 0);
  expect(code == MEMCACHED_SUCCESS, "flush", memc, code);
  memcached_free(memc);
  std::printf("ok\n");
  return 0;
}
