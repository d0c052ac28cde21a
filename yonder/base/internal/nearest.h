#pragma once
// "Did you mean …?": the known word that a mistyped one was probably meant to be.
//
// Concurrency: pure functions.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace yonder::internal {

// How many letters must be inserted, deleted, replaced or swapped with their
// neighbour to turn one word into the other (no letter touched twice).
std::size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `known` if it is near: a third of the letters may differ, three at
// most. Else one whose last part (after '.') is that of `word`: users forget
// sections. Else "". The result points into `known`.
std::string_view nearest(std::string_view word, std::span<const std::string> known);

// "; did you mean X?" or "".
std::string suggestion(std::string_view word, std::span<const std::string> known);

}  // namespace yonder::internal
