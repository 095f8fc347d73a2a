//! Uses libsafetensors from Zig, which reads the header itself: see ../c/model.c for what it does.
//!
//! Prints through C, since the output of Zig's own library is spelled anew in each version.
//! SPDX-License-Identifier: Apache-2.0
const std = @import("std");
const c = @cImport({
    @cInclude("safetensors/safetensors.h");
    @cInclude("stdio.h");
    @cInclude("time.h");
});

const Failure = error{Safetensors};

/// The message of the last failure: an error of Zig carries none.
var failure: c.st_error = fresh(c.st_error);

/// ST_INIT is a compound literal, which Zig does not translate.
fn fresh(comptime T: type) T {
    var value = std.mem.zeroes(T);
    value.struct_size = @sizeOf(T);
    return value;
}

fn check(status: c.st_status) Failure!void {
    if (status != c.ST_OK) return Failure.Safetensors;
}

fn open(path: [*:0]const u8) Failure!*c.st_file {
    var file: ?*c.st_file = null;
    try check(c.st_open(path, null, &file, &failure));
    return file.?;
}

fn say(title: [*:0]const u8, values: []const f32) void {
    _ = c.printf("%s:", title);
    for (values) |value| _ = c.printf(" %g", @as(f64, value));
    _ = c.printf("\n");
}

fn list(file: *c.st_file) Failure!void {
    var pointer: ?*c.st_tensor_list = null;
    try check(c.st_list_tensors(file, 0, &pointer, &failure));
    defer c.st_tensor_list_free(pointer);
    const all = pointer.?;
    const format: [*c]const u8 = c.st_get_metadata(file, "format", null);
    _ = c.printf("model.safetensors: %zu tensors, format %s\n", @as(usize, all.*.count), format);
    for (0..all.*.count) |i| {
        const name: [*c]const u8 = all.*.names + all.*.name_offsets[i];
        _ = c.printf("  %s %s [", name, c.st_dtype_name(all.*.dtypes[i]));
        for (all.*.dim_offsets[i]..all.*.dim_offsets[i + 1]) |d| {
            const between: [*:0]const u8 = if (d == all.*.dim_offsets[i]) "" else ", ";
            _ = c.printf("%s%zu", between, @as(usize, all.*.dims[d]));
        }
        _ = c.printf("] %zu bytes\n", @as(usize, all.*.sizes[i]));
    }
}

fn read(comptime T: type, comptime n: usize, file: *c.st_file, name: [*:0]const u8) Failure![n]T {
    var values: [n]T = undefined;
    try check(c.st_tensor_read(c.st_get_tensor(file, name), &values, @sizeOf([n]T), &failure));
    return values;
}

/// weight[1:3, ::-1]
fn readSlice(file: *c.st_file) Failure!void {
    const lowest = std.math.minInt(i64);
    const begin = [_]i64{ 1, std.math.maxInt(i64) };
    const end = [_]i64{ 3, lowest };
    const step = [_]i64{ 1, -1 };
    const weight = c.st_get_tensor(file, "weight");
    var bytes: u64 = 0;
    try check(c.st_tensor_slice(weight, &begin, &end, &step, null, &bytes, null, &failure));
    var values: [12]f32 = undefined;
    try check(c.st_tensor_read_slice(weight, &begin, &end, &step, &values, bytes, &failure));
    say("weight[1:3, ::-1]", values[0 .. bytes / @sizeOf(f32)]);
}

fn progress(ctx: ?*anyopaque, done: u64, total: u64) callconv(.c) i32 {
    const last: *[2]u64 = @ptrCast(@alignCast(ctx));
    last.* = .{ done, total };
    return 0;
}

fn readMany(file: *c.st_file) Failure!void {
    var weight: [12]f32 = undefined; // the plan keeps their addresses until it has run
    var bias: [3]f32 = undefined;
    var last = [2]u64{ 0, 0 };
    var plan: ?*c.st_plan = null;
    try check(c.st_plan_new(file, &plan, &failure));
    defer c.st_plan_free(plan);
    try check(c.st_plan_add(plan, c.st_get_tensor(file, "weight"), null, null, null, &weight, @sizeOf(@TypeOf(weight)), &failure));
    try check(c.st_plan_add(plan, c.st_get_tensor(file, "bias"), null, null, null, &bias, @sizeOf(@TypeOf(bias)), &failure));
    var options = fresh(c.st_read_options);
    options.threads = 1;
    options.progress = progress;
    options.ctx = &last;
    try check(c.st_plan_run(plan, &options, &failure));
    _ = c.printf("plan: %zu of %zu bytes, the last weight is %g\n", @as(usize, last[0]), @as(usize, last[1]), @as(f64, weight[11]));
}

fn convert(file: *c.st_file) Failure!void {
    const halves = try read(u16, 2, file, "scale");
    var values: [2]f32 = undefined;
    try check(c.st_convert(c.ST_BF16, &halves, c.ST_F32, &values, 2, &failure));
    say("scale as F32", &values);
}

fn writeAndReadBack(file: *c.st_file) Failure!void {
    const doubled = [_]f32{ 1, -2.5, 4 };
    const shape = [_]u64{doubled.len};
    var writer: ?*c.st_writer = null;
    var index: usize = 0;
    try check(c.st_writer_new(&writer, &failure));
    defer c.st_writer_free(writer);
    try check(c.st_writer_copy_metadata(writer, file, &failure));
    try check(c.st_writer_add_tensor(writer, null, 0, c.st_get_tensor(file, "scale"), &failure));
    try check(c.st_writer_add(writer, "doubled", c.ST_F32, 1, &shape, null, &index, &failure));
    try check(c.st_writer_begin(writer, "written.safetensors", null, &failure));
    try check(c.st_writer_put(writer, index, 0, &doubled, @sizeOf(@TypeOf(doubled)), &failure));
    try check(c.st_writer_finish(writer, &failure));

    const written = try open("written.safetensors");
    defer c.st_free(written);
    say("written.safetensors, doubled", &try read(f32, 3, written, "doubled"));
}

fn showFailure() void {
    const message: [*c]const u8 = &failure.message;
    _ = c.printf("%s: %s\n", c.st_status_name(failure.status), message);
}

fn tour() Failure!void {
    const file = try open("model.safetensors");
    defer c.st_free(file);
    try list(file);
    say("bias", &try read(f32, 3, file, "bias"));
    try readSlice(file);
    try readMany(file);
    try convert(file);
    try writeAndReadBack(file);
    const opened = open("truncated.safetensors") catch return showFailure();
    c.st_free(opened);
}

fn nowMs() f64 {
    return @as(f64, @floatFromInt(c.clock())) * 1e3 / @as(f64, c.CLOCKS_PER_SEC);
}

fn timeListing(path: [*:0]const u8) Failure!void {
    const file = try open(path);
    defer c.st_free(file);
    const start = nowMs();
    var getters: u64 = 0;
    for (0..c.st_count_tensors(file)) |i| {
        const tensor = c.st_get_tensor_at(file, i);
        var length: usize = 0;
        _ = c.st_tensor_name(tensor, &length);
        getters += length + @as(u64, @intCast(c.st_tensor_dtype(tensor))) + c.st_tensor_bytes(tensor) + c.st_tensor_offset(tensor);
        for (0..c.st_tensor_rank(tensor)) |d| getters += c.st_tensor_shape(tensor)[d];
    }
    const middle = nowMs();
    var columns: u64 = 0;
    var pointer: ?*c.st_tensor_list = null;
    try check(c.st_list_tensors(file, 0, &pointer, &failure));
    defer c.st_tensor_list_free(pointer);
    const all = pointer.?;
    for (0..all.*.count) |i| {
        columns += all.*.name_offsets[i + 1] - all.*.name_offsets[i] - 1 + @as(u64, @intCast(all.*.dtypes[i])) + all.*.sizes[i] +
            all.*.offsets[i];
        for (all.*.dim_offsets[i]..all.*.dim_offsets[i + 1]) |d| columns += all.*.dims[d];
    }
    const differ: [*:0]const u8 = if (getters == columns) "" else ", which differ";
    _ = c.printf("getters %.1f ms, columns %.1f ms%s\n", middle - start, nowMs() - middle, differ);
}

pub export fn main(argc: c_int, argv: [*]const [*:0]const u8) c_int {
    const timed = argc == 3 and std.mem.eql(u8, std.mem.span(argv[1]), "--list");
    (if (timed) timeListing(argv[2]) else tour()) catch {
        showFailure();
        return 1;
    };
    return 0;
}
