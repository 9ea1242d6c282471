#include "base/sha256.h"

#include <gtest/gtest.h>

namespace ibid {
namespace {

// FIPS 180-2, appendix B.
TEST(Sha256, MatchesTheStandard) {
  Sha256 hash;
  hash.update("abc");
  EXPECT_EQ(to_hex(hash.finish()), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(hash.finish()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  hash.update("abcdbcdecdefdefgefghfghighij");
  hash.update("hijkijkljklmklmnlmnomnopnopq");
  EXPECT_EQ(to_hex(hash.finish()), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

}  // namespace
}  // namespace ibid
