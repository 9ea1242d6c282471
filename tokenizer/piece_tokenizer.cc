#include "tokenizer/piece_tokenizer.h"

#include <algorithm>
#include <utility>

namespace ibid {
namespace {

std::string without_marks(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    if (text.substr(pos).starts_with(kSpaceMark)) {
      pos += kSpaceMark.size();
    } else {
      out += text[pos++];
    }
  }
  return out;
}

}  // namespace

PieceTokenizer::PieceTokenizer(PieceSpec spec)
    : PipelineTokenizer(std::move(static_cast<PipelineSpec&>(spec))),
      model_(std::move(spec.model)),
      cut_(spec.cut),
      split_(std::move(spec.split)),
      whole_newline_runs_(spec.whole_newline_runs),
      first_token_(spec.first_token) {
  if (first_token_ != FirstToken::kWithoutSpaces) return;
  const auto add = [this](TokenId id, std::string_view written) {
    if (written.find(kSpaceMark) != written.npos) without_spaces_.emplace(id, without_marks(written));
  };
  for (size_t i = 0; i < vocab_size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    add(id, model_->written().bytes(id));
  }
  for (const AddedToken& token : this->spec().added) add(token.id, token.text);
}

Piece PieceTokenizer::scan(std::string_view text, size_t begin, ScanMemory& memory) const {
  switch (cut_) {
    case PieceCut::kNowhere: break;
    case PieceCut::kSteps: return split_->scan(text, begin, memory);
    case PieceCut::kSpaceMarks: {
      const size_t end = text.find(kSpaceMark, begin + 1);
      return end == text.npos ? Piece{text.size(), true} : Piece{end, false};
    }
    case PieceCut::kLines: {
      const size_t newline = std::min(text.find('\n', begin), text.size());
      if (newline == begin) {
        const size_t end = text.find_first_not_of('\n', begin);
        return end == text.npos ? Piece{text.size(), true} : Piece{end, false};
      }
      const Piece piece = model_->scan(text.substr(0, newline), begin);
      return {piece.end, piece.touched_end && newline == text.size()};
    }
  }
  return model_->scan(text, begin);
}

void PieceTokenizer::encode_piece(std::string_view piece, bool /*only_template*/, Tokens& out) const {
  if (cut_ == PieceCut::kSpaceMarks || cut_ == PieceCut::kSteps) {
    model_->encode(piece, out);
    return;
  }
  if (whole_newline_runs_ && piece[0] == '\n') {
    if (const TokenId whole = model_->written().find(piece); whole != kNoToken) {
      out.push_back(whole);
      return;
    }
  }
  model_->encode_stretch(piece, out);
}

std::string_view PieceTokenizer::first_token_bytes(TokenId id) const {
  const std::string_view bytes = token_bytes(id);
  switch (first_token_) {
    case FirstToken::kAsItIs: break;
    case FirstToken::kWithoutOneSpace: return bytes.starts_with(' ') ? bytes.substr(1) : bytes;
    case FirstToken::kWithoutSpaces: {
      const auto found = without_spaces_.find(id);
      if (found != without_spaces_.end()) return found->second;
    }
  }
  return bytes;
}

}  // namespace ibid
