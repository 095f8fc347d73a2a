// The opcodes of Python's pickle: those that are read by their constants, all of them by their names in messages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace cli::legacy::op {

constexpr std::uint8_t kMark = '(', kStop = '.', kPop = '0', kPopMark = '1';
constexpr std::uint8_t kBinFloat = 'G', kInt = 'I', kBinInt = 'J', kBinInt1 = 'K', kLong = 'L', kBinInt2 = 'M';
constexpr std::uint8_t kNone = 'N', kBinPersid = 'Q', kReduce = 'R', kBinString = 'T', kShortBinString = 'U';
constexpr std::uint8_t kBinUnicode = 'X', kAppend = 'a', kBuild = 'b', kGlobal = 'c', kAppends = 'e', kBinGet = 'h';
constexpr std::uint8_t kLongBinGet = 'j', kBinPut = 'q', kLongBinPut = 'r', kSetItem = 's', kTuple = 't';
constexpr std::uint8_t kSetItems = 'u', kEmptyTuple = ')', kEmptyList = ']', kEmptyDict = '}', kBinBytes = 'B';
constexpr std::uint8_t kShortBinBytes = 'C';
constexpr std::uint8_t kProto = 0x80, kTuple1 = 0x85, kTuple2 = 0x86, kTuple3 = 0x87, kNewTrue = 0x88;
constexpr std::uint8_t kNewFalse = 0x89, kLong1 = 0x8A, kLong4 = 0x8B, kShortBinUnicode = 0x8C, kBinUnicode8 = 0x8D;
constexpr std::uint8_t kBinBytes8 = 0x8E, kStackGlobal = 0x93, kMemoize = 0x94, kFrame = 0x95;

struct Name {
  std::uint8_t code;
  std::string_view name;
};

// What is not read: the text forms of protocol 0, sets, and what makes objects of classes.
constexpr Name kRefused[] = {
    {'2', "DUP"},          {'F', "FLOAT"},
    {'P', "PERSID"},       {'S', "STRING"},
    {'V', "UNICODE"},      {'d', "DICT"},
    {'g', "GET"},          {'i', "INST"},
    {'l', "LIST"},         {'o', "OBJ"},
    {'p', "PUT"},          {0x81, "NEWOBJ"},
    {0x82, "EXT1"},        {0x83, "EXT2"},
    {0x84, "EXT4"},        {0x8F, "EMPTY_SET"},
    {0x90, "ADDITEMS"},    {0x91, "FROZENSET"},
    {0x92, "NEWOBJ_EX"},   {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"},
};

}  // namespace cli::legacy::op
