#include "cache/row.h"
#include "tokenizer/word.h"
