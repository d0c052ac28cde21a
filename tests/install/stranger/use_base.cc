// Uses headers and code of the installed base library.
#include <yonder/base/result.h>

#include <cstdio>
#include <string>

yonder::Result<int> parse(const std::string& text) {
  if (text.empty()) return yonder::fail(yonder::ErrorCode::kInvalidArgument, "parse", 7);
  return static_cast<int>(text.size());
}

int main() {
  const auto good = parse("four");
  const auto bad = parse("");
  if (!good || *good != 4 || bad) return 1;
  // to_string() is compiled code: the archive has to link, with what it needs.
  const std::string text = bad.error().to_string();
  std::puts(text.c_str());
  return text.find("InvalidArgument") == std::string::npos ? 1 : 0;
}
