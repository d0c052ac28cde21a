#include "bench/heap/word_count.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "bench/heap/memory.h"
#include "bench/heap/words.h"
#include "bench/heap/workers.h"
#include "yonder/heap/slot_store.h"

namespace yonder::bench::heap {
namespace {

// Where a word was seen; 64 bytes.
template <typename Memory>
struct Places {
  static constexpr std::size_t kPlaces = 13;
  typename Memory::template Ptr<Places> next;
  std::uint32_t count = 0;
  std::array<std::uint32_t, kPlaces> places{};
};

template <typename Memory>
struct WordEntry {
  std::uint64_t hash = 0;
  typename Memory::template Ptr<WordEntry> next;
  typename Memory::template Ptr<Places<Memory>> places;
  std::uint32_t length = 0;
  std::array<char, kMaxWordBytes + 2> letters{};

  bool is(std::uint64_t other_hash, std::string_view word) const {
    return hash == other_hash && word == std::string_view(letters.data(), length);
  }
};

}  // namespace
}  // namespace yonder::bench::heap

template <typename Memory>
struct yonder::heap::is_relocatable<yonder::bench::heap::Places<Memory>> : std::true_type {};
template <typename Memory>
struct yonder::heap::is_relocatable<yonder::bench::heap::WordEntry<Memory>> : std::true_type {};

namespace yonder::bench::heap {
namespace {

template <typename Memory>
class WordTable {
 public:
  explicit WordTable(std::size_t buckets) : buckets_(std::bit_ceil(buckets)) {}
  // From the beginning of each list: see Graph in page_rank.cc.
  ~WordTable() {
    for (EntryPtr& bucket : buckets_) {
      while (bucket) {
        EntryPtr next = std::move(bucket.write()->next);
        clear_places(bucket.write()->places);
        bucket = std::move(next);
      }
    }
  }
  WordTable(const WordTable&) = delete;
  WordTable(WordTable&&) = default;
  WordTable& operator=(const WordTable&) = delete;

  std::size_t buckets() const { return buckets_.size(); }

  // Hints that a word with this hash will be added soon, to be given one after the other: the bucket
  // comes near, the entry it points to, and that one's places.
  void prefetch_bucket(std::uint64_t hash) const { __builtin_prefetch(&buckets_[number_of(hash)]); }
  void prefetch_entry(std::uint64_t hash) const { buckets_[number_of(hash)].prefetch(); }
  void prefetch_places(std::uint64_t hash) const {
    const EntryPtr& bucket = buckets_[number_of(hash)];
    if (bucket) bucket.read()->places.prefetch();
  }
  void add(std::string_view word, std::uint64_t hash, std::uint32_t place) {
    EntryPtr& bucket = buckets_[number_of(hash)];
    if (bucket) {
      for (auto entry = bucket.write();; entry = entry->next.write()) {
        if (entry->is(hash, word)) return add_place(entry->places, place);
        if (!entry->next) break;
      }
    }
    EntryPtr added = Memory::template make<Entry>();
    const auto entry = added.write();
    entry->hash = hash;
    entry->length = static_cast<std::uint32_t>(word.size());
    std::memcpy(entry->letters.data(), word.data(), word.size());
    entry->next = std::move(bucket);
    add_place(entry->places, place);
    bucket = std::move(added);
  }

  // Adds up what the bucket's words and places come to.
  void reduce(std::size_t bucket, Measured& measured) const {
    if (!buckets_[bucket]) return;
    for (auto entry = buckets_[bucket].read();; entry = entry->next.read()) {
      std::uint64_t count = 0;
      std::uint64_t sum = 0;
      for (auto block = entry->places.read();; block = block->next.read()) {
        for (std::uint32_t i = 0; i < block->count; ++i) sum += block->places[i];
        count += block->count;
        if (!block->next) break;
      }
      measured.operations += count;
      measured.checksum += entry->hash * count + sum;
      if (!entry->next) return;
    }
  }

 private:
  using Entry = WordEntry<Memory>;
  using EntryPtr = typename Memory::template Ptr<Entry>;
  using Block = Places<Memory>;
  using BlockPtr = typename Memory::template Ptr<Block>;

  std::size_t number_of(std::uint64_t hash) const { return hash & (buckets_.size() - 1); }
  static void add_place(BlockPtr& head, std::uint32_t place) {
    if (head) {
      const auto block = head.write();
      if (block->count < Block::kPlaces) return void(block->places[block->count++] = place);
    }
    BlockPtr added = Memory::template make<Block>();
    const auto block = added.write();
    block->next = std::move(head);
    block->places[block->count++] = place;
    head = std::move(added);
  }
  static void clear_places(BlockPtr& head) {
    while (head) {
      BlockPtr next = std::move(head.write()->next);
      head = std::move(next);
    }
  }

  std::vector<EntryPtr> buckets_;
};

template <typename Memory>
using Text = std::vector<typename Memory::template Ptr<char[]>>;

// The next words are known, so their entries are asked for early, whatever the memory.
constexpr std::size_t kWordsAhead = 8;

struct Word {
  std::string_view letters;
  std::uint64_t hash;
};

void split(std::string_view page, std::vector<Word>& words) {
  words.clear();
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t space = page.find(' ', at);
    const std::string_view letters = page.substr(at, space - at);
    if (!letters.empty()) words.push_back({.letters = letters, .hash = hash_of(letters)});
    at = space + 1;
  }
}

template <typename Memory>
void map_pages(const Text<Memory>& text, std::size_t begin, std::size_t end, WordTable<Memory>& table,
               Measured& measured) {
  std::vector<Word> words;
  const auto ahead = [&](std::size_t i) { return words[std::min(i, words.size() - 1)].hash; };
  for (std::size_t p = begin; p < end; ++p) {
    const auto page = text[p].read();
    split({page.data(), page.size()}, words);
    for (std::size_t i = 0; i < words.size(); ++i) {
      table.prefetch_bucket(ahead(i + 3 * kWordsAhead));
      table.prefetch_entry(ahead(i + 2 * kWordsAhead));
      table.prefetch_places(ahead(i + kWordsAhead));
      const std::string_view letters = words[i].letters;
      table.add(letters, words[i].hash, static_cast<std::uint32_t>(letters.data() - page.data()));
    }
    measured.operations += words.size();
  }
}

}  // namespace

template <typename Memory>
Measured run_word_count(const Work& work) {
  // Of 100 bytes, 40 are text; its places take 30, and the entries the rest.
  const std::size_t pages = work.bytes * 4 / 10 / far::kPageBytes / work.threads * work.threads;
  const std::uint64_t vocabulary = pages * far::kPageBytes / 7 / 40 + 100;
  Text<Memory> text(pages);
  on_threads(work.threads, [&](unsigned t) {
    Words words(vocabulary, work.seed * 13 + t);
    for (std::size_t p = pages * t / work.threads; p < pages * (t + 1) / work.threads; ++p) {
      text[p] = Memory::template make_array<char>(far::kPageBytes);
      const auto page = text[p].write();
      words.fill({page.data(), page.size()});
    }
  });
  std::vector<WordTable<Memory>> tables;
  for (unsigned t = 0; t < work.threads; ++t) tables.emplace_back(vocabulary);
  std::vector<Measured> results(work.threads);
  if (work.on_measure) work.on_measure();
  const Instant begin = os::SteadyClock::read();
  on_threads(work.threads, [&](unsigned t) {
    map_pages<Memory>(text, pages * t / work.threads, pages * (t + 1) / work.threads, tables[t], results[t]);
  });
  on_threads(work.threads, [&](unsigned t) {
    for (std::size_t bucket = t; bucket < tables[0].buckets(); bucket += work.threads)
      for (const WordTable<Memory>& table : tables) table.reduce(bucket, results[t]);
  });
  return finish(work, results, seconds_since(begin));
}

template Measured run_word_count<Far>(const Work&);
template Measured run_word_count<Plain>(const Work&);
template Measured run_word_count<Faulted>(const Work&);

}  // namespace yonder::bench::heap
