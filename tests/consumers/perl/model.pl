# Uses libsafetensors through FFI::Platypus: see ../c/model.c for what it does.
#
# SPDX-License-Identifier: Apache-2.0
use strict;
use warnings;
use FFI::Platypus 1.00;
use FFI::Platypus::Buffer qw(scalar_to_buffer buffer_to_scalar);
use FFI::Platypus::Memory qw(calloc free);
use Time::HiRes qw(time);

binmode STDOUT;    # names are bytes of UTF-8 here, and go out as they are
my ($BF16, $F32) = (11, 12);
my ($SLICE_BEGIN, $SLICE_END) = (-9223372036854775807 - 1, 9223372036854775807);
my $ffi = FFI::Platypus->new(api => 1, lib => $ENV{SAFETENSORS_LIBRARY} // "libsafetensors.so.0");
$ffi->type("(opaque, uint64, uint64)->sint32" => "progress");

$ffi->attach(@$_) for (
    [st_status_name => ["sint32"] => "string"],
    [st_dtype_name => ["sint32"] => "string"],
    [st_get_metadata => ["opaque", "string", "opaque"] => "string"],
    [st_free => ["opaque"] => "void"],
    [st_count_tensors => ["opaque"] => "size_t"],
    [st_get_tensor_at => ["opaque", "size_t"] => "opaque"],
    [st_get_tensor => ["opaque", "string"] => "opaque"],
    [st_tensor_name => ["opaque", "size_t*"] => "opaque"],
    [st_tensor_dtype => ["opaque"] => "sint32"],
    [st_tensor_rank => ["opaque"] => "size_t"],
    [st_tensor_shape => ["opaque"] => "opaque"],
    [st_tensor_bytes => ["opaque"] => "uint64"],
    [st_tensor_offset => ["opaque"] => "uint64"],
    [st_tensor_list_free => ["opaque"] => "void"],
    [st_plan_free => ["opaque"] => "void"],
    [st_writer_free => ["opaque"] => "void"],
);

# Functions whose last parameter is an st_error, which is added here: they die.
my %parameters = (
    st_open => ["string", "opaque", "opaque*"],
    st_list_tensors => ["opaque", "uint32", "opaque*"],
    st_tensor_read => ["opaque", "opaque", "size_t"],
    st_tensor_slice => ["opaque", "sint64[2]", "sint64[2]", "sint64[2]", "opaque", "uint64*", "opaque"],
    st_tensor_read_slice => ["opaque", "sint64[2]", "sint64[2]", "sint64[2]", "opaque", "size_t"],
    st_plan_new => ["opaque", "opaque*"],
    st_plan_add => ["opaque", "opaque", "opaque", "opaque", "opaque", "opaque", "size_t"],
    st_plan_run => ["opaque", "opaque"],
    st_convert => ["sint32", "opaque", "sint32", "opaque", "size_t"],
    st_writer_new => ["opaque*"],
    st_writer_copy_metadata => ["opaque", "opaque"],
    st_writer_add_tensor => ["opaque", "string", "size_t", "opaque"],
    st_writer_add => ["opaque", "string", "sint32", "size_t", "uint64[1]", "opaque", "size_t*"],
    st_writer_begin => ["opaque", "string", "opaque"],
    st_writer_put => ["opaque", "size_t", "uint64", "opaque", "size_t"],
    st_writer_finish => ["opaque"],
);
my %failing = map { $_ => $ffi->function($_ => [@{ $parameters{$_} }, "opaque"] => "sint32") } keys %parameters;

sub check {
    my ($name, @arguments) = @_;
    my $error = pack "L x252", 256;
    my ($address) = scalar_to_buffer $error;
    my $status = $failing{$name}->call(@arguments, $address);
    die st_status_name($status) . ": " . unpack("x24 Z*", $error) . "\n" if $status;
}

sub make {
    my ($name, @arguments) = @_;
    my $out;
    check($name, @arguments, \$out);
    return $out;
}

sub text { join " ", unpack "f<*", shift }

# Copies of C's memory: the views of FFI::Platypus end with what they show.
sub column {
    my ($list, $at, $bytes, $code) = @_;
    my $address = unpack "Q", buffer_to_scalar($list + $at, 8);
    return unpack $code, buffer_to_scalar($address, $bytes);
}

sub by_columns {
    my ($file) = @_;
    my $list = make("st_list_tensors", $file, 0);
    my $n = unpack "Q", buffer_to_scalar($list + 8, 8);
    my @ends = column($list, 24, 8 * ($n + 1), "Q*");
    my ($names) = column($list, 16, $ends[-1], "a*");
    my @dim_ends = column($list, 56, 8 * ($n + 1), "Q*");
    my @dims = column($list, 48, 8 * $dim_ends[-1], "Q*");
    my @dtypes = column($list, 32, 4 * $n, "l*");
    my @offsets = column($list, 64, 8 * $n, "Q*");
    my @sizes = column($list, 72, 8 * $n, "Q*");
    st_tensor_list_free($list);
    return map {
        [substr($names, $ends[$_], $ends[$_ + 1] - $ends[$_] - 1), $dtypes[$_],
         [@dims[$dim_ends[$_] .. $dim_ends[$_ + 1] - 1]], $sizes[$_], $offsets[$_]]
    } 0 .. $n - 1;
}

sub by_getters {
    my ($file) = @_;
    my @rows;
    for my $i (0 .. st_count_tensors($file) - 1) {
        my ($tensor, $length) = (st_get_tensor_at($file, $i), 0);
        my $name = buffer_to_scalar(st_tensor_name($tensor, \$length), $length);
        my $rank = st_tensor_rank($tensor);
        my @shape = $rank ? unpack("Q*", buffer_to_scalar(st_tensor_shape($tensor), 8 * $rank)) : ();
        push @rows, [$name, st_tensor_dtype($tensor), \@shape, st_tensor_bytes($tensor), st_tensor_offset($tensor)];
    }
    return @rows;
}

sub read_tensor {
    my ($file, $name, $size) = @_;
    my $bytes = "\0" x $size;
    check("st_tensor_read", st_get_tensor($file, $name), scalar_to_buffer($bytes));
    return $bytes;
}

# weight[1:3, ::-1]
sub read_slice {
    my ($file) = @_;
    my ($weight, $nbytes) = (st_get_tensor($file, "weight"), 0);
    my @part = ([1, $SLICE_END], [3, $SLICE_BEGIN], [1, -1]);
    check("st_tensor_slice", $weight, @part, undef, \$nbytes, undef);
    my $values = "\0" x $nbytes;
    check("st_tensor_read_slice", $weight, @part, scalar_to_buffer($values));
    print "weight[1:3, ::-1]: ", text($values), "\n";
}

sub read_many {
    my ($file) = @_;
    my @last;
    my $progress = $ffi->closure(sub { @last = @_[1, 2]; return 0 });    # must live as long as the run
    my $function = $ffi->cast("progress" => "opaque", $progress);
    my $options = pack "LLLlQQQQQ", 56, 0, 1, 0, 0, 0, 0, $function, 0;   # one thread: Perl runs on its own only
    my ($weight, $bias) = (calloc(12, 4), calloc(3, 4));    # memory of C: Perl may move the bytes of a scalar
    my $plan = make("st_plan_new", $file);
    check("st_plan_add", $plan, st_get_tensor($file, "weight"), undef, undef, undef, $weight, 48);
    check("st_plan_add", $plan, st_get_tensor($file, "bias"), undef, undef, undef, $bias, 12);
    check("st_plan_run", $plan, (scalar_to_buffer $options)[0]);
    st_plan_free($plan);
    my @weight = unpack "f<*", buffer_to_scalar($weight, 48);
    free($_) for $weight, $bias;
    print "plan: $last[0] of $last[1] bytes, the last weight is $weight[11]\n";
}

sub write_and_read_back {
    my ($file) = @_;
    my ($doubled, $index) = (pack("f<*", 1, -2.5, 4), 0);
    my $writer = make("st_writer_new");
    check("st_writer_copy_metadata", $writer, $file);
    check("st_writer_add_tensor", $writer, undef, 0, st_get_tensor($file, "scale"));
    check("st_writer_add", $writer, "doubled", $F32, 1, [3], undef, \$index);
    check("st_writer_begin", $writer, "written.safetensors", undef);
    check("st_writer_put", $writer, $index, 0, scalar_to_buffer($doubled));
    check("st_writer_finish", $writer);
    st_writer_free($writer);
    my $written = make("st_open", "written.safetensors", undef);
    print "written.safetensors, doubled: ", text(read_tensor($written, "doubled", 12)), "\n";
    st_free($written);
}

sub tour {
    my $file = make("st_open", "model.safetensors", undef);
    my @rows = by_columns($file);
    print "model.safetensors: ", scalar(@rows), " tensors, format ", st_get_metadata($file, "format", undef), "\n";
    for (@rows) {
        my ($name, $dtype, $shape, $bytes) = @$_;
        print "  $name ", st_dtype_name($dtype), " [", join(", ", @$shape), "] $bytes bytes\n";
    }
    print "bias: ", text(read_tensor($file, "bias", 12)), "\n";
    read_slice($file);
    read_many($file);
    my ($halves, $scale) = (read_tensor($file, "scale", 4), "\0" x 8);
    check("st_convert", $BF16, (scalar_to_buffer $halves)[0], $F32, (scalar_to_buffer $scale)[0], 2);
    print "scale as F32: ", text($scale), "\n";
    write_and_read_back($file);
    eval { make("st_open", "truncated.safetensors", undef) };
    print $@;
    st_free($file);
}

sub time_listing {
    my $file = make("st_open", shift, undef);
    my $start = time;
    my @getters = by_getters($file);
    my $middle = time;
    my @columns = by_columns($file);
    my $end = time;
    my ($one, $other) = map { join "\n", map { join " ", @$_[0, 1], "[@{$_->[2]}]", @$_[3, 4] } @$_ } \@getters, \@columns;
    die "the lists differ" if $one ne $other;
    printf "getters %.1f ms, columns %.1f ms\n", ($middle - $start) * 1e3, ($end - $middle) * 1e3;
    st_free($file);
}

@ARGV && $ARGV[0] eq "--list" ? time_listing($ARGV[1]) : tour();
