<?php
// Uses libsafetensors through PHP's FFI: see ../c/model.c for what it does.
//
// SAFETENSORS_JSON names the installed safetensors.json, of which declarations(), in C, are made for PHP's parser.
// SPDX-License-Identifier: Apache-2.0
function declarations(array $api): string {
    $c = '';
    foreach ($api['enums'] as $enum) {
        if ($enum['name']) $c .= "typedef $enum[type] $enum[name];\n";
        $c .= 'enum { ' . implode(', ', array_map(fn($one) => "$one[name] = $one[value]", $enum['constants'])) . " };\n";
    }
    foreach ($api['handles'] as $handle)
        $c .= isset($handle['foreign']) ? "$handle[c];\n" : "typedef struct $handle[name] $handle[name];\n";
    foreach ($api['structs'] as $struct)
        $c .= 'typedef struct { ' . implode('; ', array_column($struct['fields'], 'c')) . "; } $struct[name];\n";
    foreach ($api['functions'] as $function) {
        // As `const char *` a text with a length would become a string that ends at its first NUL.
        $counted = isset($function['returns']['length']);
        $c .= ($counted ? preg_replace('/^const char/', 'const unsigned char', $function['c']) : $function['c']) . "\n";
    }
    return $c;
}

$api = json_decode(file_get_contents(getenv('SAFETENSORS_JSON')), true);
$st = FFI::cdef(declarations($api), getenv('SAFETENSORS_LIBRARY') ?: 'libsafetensors.so.0');
foreach ($api['structs'] as $struct)
    assert(in_array(FFI::sizeof($st->type($struct['name'])), array_column($struct['layouts'], 'size')));

function fresh(string $struct) {
    global $st;
    $value = $st->new($struct);
    $value->struct_size = FFI::sizeof($value);
    return $value;
}

// Calls a function whose last parameter is an st_error.
function check(string $name, ...$arguments): void {
    global $st;
    $error = fresh('st_error');
    $status = $st->$name(...[...$arguments, FFI::addr($error)]);
    if ($status !== 0) throw new RuntimeException($st->st_status_name($status) . ': ' . FFI::string($error->message));
}

// Calls a function that returns an object through a pointer.
function make(string $name, string $type, ...$arguments) {
    global $st;
    $out = $st->new($type);
    check($name, ...[...$arguments, FFI::addr($out)]);
    return $out;
}

function metadata($file, string $key): ?string {
    global $st;
    $length = $st->new('size_t');
    $value = $st->st_get_metadata($file, $key, FFI::addr($length));
    return $value === null ? null : FFI::string($value, $length->cdata);
}

function open_model(string $path) { return make('st_open', 'st_file *', $path, null); }

function text($values, int $n): string {
    $words = [];
    for ($i = 0; $i < $n; ++$i) $words[] = $values[$i];
    return implode(' ', $words);
}

function by_columns($file): array {
    global $st;
    $list = make('st_list_tensors', 'st_tensor_list *', $file, 0);
    $names = $st->cast('char **', $list)[2]; // $list->names would be a string that ends at the first NUL
    $rows = [];
    for ($i = 0; $i < $list->count; ++$i) {
        $shape = [];
        for ($d = $list->dim_offsets[$i]; $d < $list->dim_offsets[$i + 1]; ++$d) $shape[] = $list->dims[$d];
        $name = $list->name_offsets[$i];
        $rows[] = [FFI::string($names + $name, $list->name_offsets[$i + 1] - $name - 1), $list->dtypes[$i], $shape,
                   $list->sizes[$i], $list->offsets[$i]];
    }
    $st->st_tensor_list_free($list);
    return $rows;
}

function by_getters($file): array {
    global $st;
    [$rows, $length] = [[], $st->new('size_t')];
    for ($i = 0; $i < $st->st_count_tensors($file); ++$i) {
        $tensor = $st->st_get_tensor_at($file, $i);
        $shape = [];
        for ($d = 0; $d < $st->st_tensor_rank($tensor); ++$d) $shape[] = $st->st_tensor_shape($tensor)[$d];
        $name = $st->st_tensor_name($tensor, FFI::addr($length));
        $rows[] = [FFI::string($name, $length->cdata), $st->st_tensor_dtype($tensor), $shape,
                   $st->st_tensor_bytes($tensor), $st->st_tensor_offset($tensor)];
    }
    return $rows;
}

function pair(int $first, int $second) {
    global $st;
    $values = $st->new('int64_t[2]');
    [$values[0], $values[1]] = [$first, $second];
    return $values;
}

// weight[1:3, ::-1]
function read_slice($file): void {
    global $st;
    $weight = $st->st_get_tensor($file, 'weight');
    $part = [pair(1, PHP_INT_MAX), pair(3, PHP_INT_MIN), pair(1, -1)];
    $bytes = $st->new('uint64_t');
    check('st_tensor_slice', $weight, ...[...$part, null, FFI::addr($bytes), null]);
    $values = $st->new('float[' . intdiv($bytes->cdata, 4) . ']');
    check('st_tensor_read_slice', $weight, ...[...$part, $values, $bytes->cdata]);
    echo 'weight[1:3, ::-1]: ', text($values, count($values)), "\n";
}

function read_many($file): void {
    global $st;
    $last = [0, 0];
    [$weight, $bias] = [$st->new('float[12]'), $st->new('float[3]')]; // the plan keeps only their addresses
    $options = fresh('st_read_options');
    $options->threads = 1; // PHP runs on one thread
    $progress = function ($ctx, $done, $total) use (&$last) { $last = [$done, $total]; return 0; };
    $options->progress = $progress;
    $plan = make('st_plan_new', 'st_plan *', $file);
    foreach (['weight' => $weight, 'bias' => $bias] as $name => $values)
        check('st_plan_add', $plan, $st->st_get_tensor($file, $name), null, null, null, $values, FFI::sizeof($values));
    check('st_plan_run', $plan, FFI::addr($options));
    $st->st_plan_free($plan);
    echo "plan: $last[0] of $last[1] bytes, the last weight is {$weight[11]}\n";
}

function write_and_read_back($file): void {
    global $st;
    [$index, $shape, $doubled] = [$st->new('size_t'), $st->new('uint64_t[1]'), $st->new('float[3]')];
    $shape[0] = 3;
    foreach ([1, -2.5, 4] as $i => $value) $doubled[$i] = $value;
    $writer = make('st_writer_new', 'st_writer *');
    check('st_writer_copy_metadata', $writer, $file);
    check('st_writer_add_tensor', $writer, null, 0, $st->st_get_tensor($file, 'scale'));
    check('st_writer_add', $writer, 'doubled', $st->ST_F32, 1, $shape, null, FFI::addr($index));
    check('st_writer_begin', $writer, 'written.safetensors', null);
    check('st_writer_put', $writer, $index->cdata, 0, $doubled, FFI::sizeof($doubled));
    check('st_writer_finish', $writer);
    $st->st_writer_free($writer);
    $written = open_model('written.safetensors');
    $values = $st->new('float[3]');
    check('st_tensor_read', $st->st_get_tensor($written, 'doubled'), $values, FFI::sizeof($values));
    echo 'written.safetensors, doubled: ', text($values, 3), "\n";
    $st->st_free($written);
}

function tour(): void {
    global $st;
    $file = open_model('model.safetensors');
    $rows = by_columns($file);
    echo 'model.safetensors: ', count($rows), ' tensors, format ', metadata($file, 'format'), "\n";
    foreach ($rows as [$name, $dtype, $shape, $bytes])
        echo "  $name ", $st->st_dtype_name($dtype), ' [', implode(', ', $shape), "] $bytes bytes\n";
    $bias = $st->new('float[3]');
    check('st_tensor_read', $st->st_get_tensor($file, 'bias'), $bias, FFI::sizeof($bias));
    echo 'bias: ', text($bias, 3), "\n";
    read_slice($file);
    read_many($file);
    [$halves, $scale] = [$st->new('uint16_t[2]'), $st->new('float[2]')];
    check('st_tensor_read', $st->st_get_tensor($file, 'scale'), $halves, FFI::sizeof($halves));
    check('st_convert', $st->ST_BF16, $halves, $st->ST_F32, $scale, 2);
    echo 'scale as F32: ', text($scale, 2), "\n";
    write_and_read_back($file);
    try {
        open_model('truncated.safetensors');
    } catch (RuntimeException $error) {
        echo $error->getMessage(), "\n";
    }
    $st->st_free($file);
}

function time_listing(string $path): void {
    $file = open_model($path);
    $start = hrtime(true);
    $getters = by_getters($file);
    $middle = hrtime(true);
    $columns = by_columns($file);
    $end = hrtime(true);
    if ($getters !== $columns) throw new RuntimeException('the lists differ');
    printf("getters %.1f ms, columns %.1f ms\n", ($middle - $start) / 1e6, ($end - $middle) / 1e6);
}

if (($argv[1] ?? '') === '--list') time_listing($argv[2]);
else tour();
