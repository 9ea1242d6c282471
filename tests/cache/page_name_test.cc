#include "cache/tier/page_name.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/cache/tiny_kv.h"

namespace ibid {
namespace {

KvPageIdentity identity(std::string_view model, std::string_view name_space) {
  return {FingerprintBuilder().add("test", model).finish(), digest_of_namespace(name_space)};
}

TEST(PageName, NameDependsOnIdentityAndAllTokens) {
  const Tokens ids = random_tokens(1, 64), others = random_tokens(2, 64);
  PageNamer namer(first_half);
  const TextName a = namer.first(identity("a", "")), b = namer.first(identity("b", ""));
  std::set<PageName> names{a.name, b.name, namer.first(identity("a", "alice")).name, name_in_epoch(a.name, 1),
                           name_in_epoch(a.name, 2)};
  for (const TextName& before : {a, b}) {
    for (const Tokens* page : {&ids, &others}) {
      names.insert(namer.next(before, *page).name);
      names.insert(namer.next(before, TokenSpan(*page).first(63)).name);
      names.insert(namer.next(namer.next(before, ids), *page).name);
    }
  }
  EXPECT_EQ(names.size(), 5u + 2 * 2 * 3);
  for (const size_t n_front : {0, 1, 63}) names.insert(namer.state(a, ids, n_front));
  names.insert(namer.state(b, ids, 1));
  EXPECT_EQ(names.size(), 5u + 2 * 2 * 3 + 4) << "a state's name depends on its number of tokens";
  EXPECT_EQ(PageNamer(first_half).next(a, ids).digest, namer.next(a, ids).digest);
}

TEST(PageName, TextBeforeAPageIsThatOfItsWholePages) {
  const Tokens ids = random_tokens(3, 200);
  const KvPageIdentity of = identity("a", "");
  PageNamer namer(first_half);
  TextName text = namer.first(of);
  for (size_t n = 0; n <= ids.size(); ++n) {
    if (n > 0 && n % kPagePositions == 0) text = namer.next(text, TokenSpan(ids).subspan(n - 64, 64));
    const TextName before = namer.before_page(of, TokenSpan(ids).first(n));
    EXPECT_EQ(before.digest, text.digest) << n;
    EXPECT_EQ(before.length, n / 64 * 64);
  }
}

TEST(PageName, NamerUsesTheGivenHashFunction) {
  PageNamer namer([](const Sha256Digest&) { return PageName(); });
  const TextName a = namer.first(identity("a", ""));
  EXPECT_EQ(a.name, PageName());
  EXPECT_EQ(namer.next(a, Tokens{1}).name, PageName());
  EXPECT_NE(namer.next(a, Tokens{1}).digest, namer.next(a, Tokens{2}).digest) << "digests never collide";
}

TEST(PageName, ValidFileNamesRoundTripAndInvalidNamesAreRefused) {
  PageNamer namer(first_half);
  const TextName empty = namer.first(identity("a", ""));
  const PageName a = empty.name, b = namer.next(empty, Tokens{1, 2}).name;
  for (const KvRecordKind kind : {KvRecordKind::kPage, KvRecordKind::kState}) {
    const std::string name = record_file_name({kind, a, b});
    EXPECT_EQ(name.size(), kind == KvRecordKind::kPage ? 68u : 71u);
    ASSERT_TRUE(parse_record_file_name(name).has_value());
    EXPECT_EQ(*parse_record_file_name(name), (RecordName{kind, a, b}));
    for (size_t i = 0; i < name.size(); ++i) {
      std::string other = name;
      other[i] = 'G';
      EXPECT_FALSE(parse_record_file_name(other).has_value()) << i;
      EXPECT_FALSE(parse_record_file_name(name.substr(0, i)).has_value()) << i;
    }
    EXPECT_FALSE(parse_record_file_name(name + "x").has_value());
  }
}

}  // namespace
}  // namespace ibid
