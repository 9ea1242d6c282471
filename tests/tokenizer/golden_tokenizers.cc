#include "tests/tokenizer/golden_tokenizers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/json_limits.h"
#include "base/utf8.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/tokenizer/memory_model_file.h"

namespace ibid {
namespace {

std::string golden_path(const std::string& name) { return golden_dir() + "/tokenizer/" + name; }

}  // namespace

std::unique_ptr<Tokenizer> load_golden_tokenizer(const std::string& family) {
  const MemoryModelFile file({{"tokenizer.json", read_whole_file(golden_path(family + ".json"))}});
  Result<std::unique_ptr<Tokenizer>> tokenizer = load_tokenizer(file);
  CHECK(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

std::vector<TokenizerCase> read_tokenizer_cases(const std::string& path) {
  std::ifstream file(path);
  CHECK(file.good()) << path;
  std::vector<TokenizerCase> out;
  for (std::string line; std::getline(file, line);) {
    const Result<Json> json = parse_json(line, path);
    CHECK(json.ok()) << json.status().message();
    const Json& fields = json.value();
    TokenizerCase one;
    one.text = fields["text"].get<std::string>();
    one.origin = fields["parse_special"].get<bool>() ? TextOrigin::kTemplate : TextOrigin::kInput;
    one.add_special = fields["add_special"].get<bool>();
    one.ids = fields["ids"].get<Tokens>();
    one.decoded = one.text;
    if (const auto decoded = fields.find("decoded"); decoded != fields.end()) {
      one.checks_decoded = decoded->is_string();
      if (one.checks_decoded) one.decoded = decoded->get<std::string>();
    }
    out.push_back(std::move(one));
  }
  return out;
}

void expect_cases(const Tokenizer& tokenizer, const std::vector<TokenizerCase>& cases) {
  EXPECT_FALSE(cases.empty());
  for (size_t i = 0; i < cases.size(); ++i) {
    const TokenizerCase& one = cases[i];
    const Tokens ids = tokenizer.encode(one.text, one.origin, one.add_special);
    EXPECT_EQ(ids, one.ids) << "case " << i << ": " << testing::PrintToString(one.text.substr(0, 200));
    if (one.checks_decoded) {
      EXPECT_EQ(utf8_sanitize(tokenizer.decode(one.ids)), one.decoded) << "case " << i;
    }
  }
}

}  // namespace ibid
