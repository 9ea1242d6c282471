#include "tests/support/random_text.h"

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "base/utf8.h"

namespace ibid {
namespace {

template <typename List>
const auto& pick(std::mt19937_64& random, const List& list) {
  return list[random() % std::size(list)];
}

std::string random_character(std::mt19937_64& random) {
  constexpr uint32_t kLimits[] = {0x80, 0x80, 0x3000, 0x10000, 0x110000};
  uint32_t c = static_cast<uint32_t>(random() % pick(random, kLimits));
  if (c >= 0xD800 && c < 0xE000) c = 0xFFFF;
  std::string out;
  utf8_append(out, c);
  return out;
}

}  // namespace

std::string random_text(std::mt19937_64& random, bool raw_bytes) {
  static const std::vector<std::string> parts = {" ",
                                                 "\u2581",
                                                 "\uFB01",
                                                 "\uFF11",
                                                 "  ",
                                                 "\n",
                                                 "\r\n",
                                                 "\n\n\n",
                                                 "\t",
                                                 "\u00A0",
                                                 "\u2028",
                                                 "\u3000",
                                                 "a",
                                                 "ab",
                                                 "abc",
                                                 "bcd",
                                                 "the",
                                                 " world",
                                                 "HTTPServer",
                                                 "\u041F\u0440\u0438\u0432\u0435\u0442",
                                                 "\u01C5",
                                                 "\u00AA",
                                                 "'s",
                                                 "'LL",
                                                 "'\u017F",
                                                 "'",
                                                 "1",
                                                 "23",
                                                 "456",
                                                 "\u00B2",
                                                 "!",
                                                 "?.",
                                                 "/",
                                                 "<",
                                                 "|>",
                                                 "\u4E00",
                                                 "\u30FB\u30A2",
                                                 "\u3002",
                                                 "e\u0301",
                                                 "\u0323",
                                                 "\u0345",
                                                 "\u1100\u1161",
                                                 "\u11A8",
                                                 "\U0001F469\u200D\U0001F680",
                                                 "\u0001",
                                                 "\uE000",
                                                 "<|im_start|>",
                                                 "<|im_end|>",
                                                 "<|im_end|><|x|>",
                                                 "|><|",
                                                 "<think>",
                                                 "<SL>",
                                                 "<SR>",
                                                 "<SLR>",
                                                 "<nL>",
                                                 "<nR>",
                                                 "<nN>",
                                                 "wSSw",
                                                 "wnLSw",
                                                 "wSLRSNw",
                                                 "\u00C9x",
                                                 "e\u0301t\u00E9"};
  std::string out;
  for (uint64_t n = 1 + random() % 6; n > 0; --n) {
    const uint64_t kind = random() % 10;
    if (kind == 0) {
      out += random_character(random);
    } else if (kind == 1) {
      const std::string& part = pick(random, parts);
      out += part.substr(0, 1 + random() % part.size());  // may cut a character
    } else if (kind == 2 && raw_bytes) {
      out += static_cast<char>(random() % 256);
    } else {
      out += pick(random, parts);
    }
  }
  return raw_bytes ? out : utf8_sanitize(out);
}

uint64_t test_seed() {
  const char* given = std::getenv("IBID_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20260131;
  std::printf("seed %llu (set IBID_TEST_SEED for another)\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace ibid
