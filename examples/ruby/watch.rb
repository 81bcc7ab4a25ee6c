# Prints the objects below a prefix, and then every change:
#
#   ruby -I stubs examples/ruby/watch.rb 127.0.0.1:7420 config shop/
#
# When the stream ends, the program continues after the last position.

require "fanout/v1/fanout_services_pb"

address, resource, prefix = ARGV
service = Fanout::V1::FanoutService::Stub.new(address, :this_channel_is_insecure)
position = nil
delay = 0.2 # seconds

$stdout.sync = true
trap("INT", "SYSTEM_DEFAULT") # ends the program even while gRPC waits

loop do
  request = Fanout::V1::WatchRequest.new(resource: resource, scope: Fanout::V1::Scope.new(prefix: prefix))
  request.after = position if position
  service.watch(request).each do |message|
    message.events.each do |event|
      puts [event.type.to_s.delete_prefix("TYPE_"), event.object.key, event.object.text].join(" ")
    end
    puts "SYNCED" if message.kind == :KIND_SYNCED
    # Within half a transaction this is the position before it. Within a snapshot it has revision 0,
    # so the next watch begins with another snapshot.
    position = message.position
    delay = 0.2
  end
rescue GRPC::OutOfRange
  position = nil # the server cannot continue from it, so begin with a snapshot
rescue GRPC::InvalidArgument, GRPC::NotFound, GRPC::PermissionDenied, GRPC::Unauthenticated => e
  abort e.details # no retry can help
rescue GRPC::BadStatus => e
  warn "#{e.class.name.delete_prefix("GRPC::")}: #{e.details}"
ensure
  sleep(rand * delay)
  delay = [delay * 2, 30].min
end
