// Says what a file is by its first bytes, whatever its name says.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ibid {

enum class Content { kGguf, kSafetensors, kOther };

struct Sniffed {
  Content content;
  std::string_view
      looks_like;  // kOther: "a Git LFS pointer, not the file itself"; empty when nothing is recognised
};

Sniffed sniff(std::span<const std::byte> file);

// The error for a file that is none of the containers, or not the wanted one: kTruncated when it is too short
// to be anything, else kBadMagic that says what it looks like.
Status foreign_content_error(std::span<const std::byte> file, const std::string& path,
                             std::string_view wanted);

}  // namespace ibid
