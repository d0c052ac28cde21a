#pragma once
// Quantities as people write them: "64KiB", "50us", "25%", and back.
//
// Two ways out: to_string() rounds to three digits for a report, exact_string()
// loses nothing and parses back to the same value (for --print-config). One way
// in: a whole or decimal number, optional spaces, a unit. A decimal is accepted
// only if the result is a whole number of bytes or nanoseconds, so "1.5us" is
// 1500 ns and "0.1KiB" is refused rather than rounded.
//
//   bytes      B KiB MiB GiB TiB (powers of 1024), KB MB GB TB (powers of 1000);
//              no unit means bytes
//   durations  ns us ms s m h d; no unit is accepted for 0 only, because a bare
//              "50" has been read as every unit there is
//
// Concurrency: pure functions. Errors: kInvalidArgument for text that is no such
// quantity or does not fit; the message says which of the two.

#include <string>
#include <string_view>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"

namespace yonder {

Result<Bytes> parse_bytes(std::string_view text);
Result<Duration> parse_duration(std::string_view text);

// "25%" is 0.25; from 0% to 100%.
Result<double> parse_percent(std::string_view text);

// An amount, or a share of `whole` rounded down: "2GiB" or "25%".
Result<Bytes> parse_bytes_of(std::string_view text, Bytes whole);

std::string to_string(Bytes bytes);           // "1.5 MiB"
std::string exact_string(Bytes bytes);        // "1536KiB"
std::string to_string(Duration duration);     // "1.23 ms"
std::string exact_string(Duration duration);  // "1230us"

// A plain count: "950", "12.3 k", "4.56 M".
std::string count_string(double count);

}  // namespace yonder
