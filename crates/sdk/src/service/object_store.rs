//! Storage for the files of backups (velero: pkg/plugin/proto, pkg/plugin/framework).

use crate::call::call;
use crate::catalog::Catalog;
use crate::caught::caught_stream;
use crate::object_store::{ByteStream, ObjectStore};
use crate::status;
use crate::upload::Uploads;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use lifeboat_plugin_proto::generated::object_store_server::ObjectStore as Service;
use lifeboat_plugin_proto::generated::{
    self, CreateSignedUrlRequest, CreateSignedUrlResponse, DeleteObjectRequest, Empty, GetObjectRequest,
    ListCommonPrefixesRequest, ListCommonPrefixesResponse, ListObjectsRequest, ListObjectsResponse,
    ObjectExistsRequest, ObjectExistsResponse, ObjectStoreInitRequest, PutObjectRequest,
};
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status, Streaming};

/// Largest piece of an object that is sent at once. Velero's plugins send 16 KiB.
const PIECE: usize = 256 << 10;

/// Serves them.
pub(crate) struct ObjectStores {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) uploads: Arc<Uploads>,
}

impl ObjectStores {
    fn find(&self, name: &str) -> Result<Arc<dyn ObjectStore>, Status> {
        self.catalog.object_store.find(name)?.get()
    }
}

#[tonic::async_trait]
impl Service for ObjectStores {
    type GetObjectStream = BoxStream<'static, Result<generated::Bytes, Status>>;

    async fn init(&self, request: Request<ObjectStoreInitRequest>) -> Result<Response<Empty>, Status> {
        let ObjectStoreInitRequest { plugin, config } = request.into_inner();
        self.catalog.object_store.find(&plugin)?.init(config.into_iter().collect()).await?;
        Ok(Response::new(Empty {}))
    }

    async fn put_object(&self, request: Request<Streaming<PutObjectRequest>>) -> Result<Response<Empty>, Status> {
        let mut messages = request.into_inner();
        let nothing =
            "the server has sent nothing, so that nobody knows where it belongs: Velero does so with an empty object";
        let first = messages.message().await?.ok_or_else(|| status::odd(nothing))?;
        let store = self.find(&first.plugin)?;
        self.uploads.put(store, first, messages).await?;
        Ok(Response::new(Empty {}))
    }

    async fn object_exists(
        &self,
        request: Request<ObjectExistsRequest>,
    ) -> Result<Response<ObjectExistsResponse>, Status> {
        let ObjectExistsRequest { plugin, bucket, key } = request.into_inner();
        let exists = call(self.find(&plugin)?.object_exists(&bucket, &key)).await?;
        Ok(Response::new(ObjectExistsResponse { exists }))
    }

    async fn get_object(&self, request: Request<GetObjectRequest>) -> Result<Response<Self::GetObjectStream>, Status> {
        let GetObjectRequest { plugin, bucket, key } = request.into_inner();
        let content = call(self.find(&plugin)?.get_object(&bucket, &key)).await?;
        Ok(Response::new(messages(content).boxed()))
    }

    async fn list_common_prefixes(
        &self,
        request: Request<ListCommonPrefixesRequest>,
    ) -> Result<Response<ListCommonPrefixesResponse>, Status> {
        let ListCommonPrefixesRequest { plugin, bucket, delimiter, prefix } = request.into_inner();
        let prefixes = call(self.find(&plugin)?.list_common_prefixes(&bucket, &delimiter, &prefix)).await?;
        Ok(Response::new(ListCommonPrefixesResponse { prefixes }))
    }

    async fn list_objects(
        &self,
        request: Request<ListObjectsRequest>,
    ) -> Result<Response<ListObjectsResponse>, Status> {
        let ListObjectsRequest { plugin, bucket, prefix } = request.into_inner();
        let keys = call(self.find(&plugin)?.list_objects(&bucket, &prefix)).await?;
        Ok(Response::new(ListObjectsResponse { keys }))
    }

    async fn delete_object(&self, request: Request<DeleteObjectRequest>) -> Result<Response<Empty>, Status> {
        let DeleteObjectRequest { plugin, bucket, key } = request.into_inner();
        call(self.find(&plugin)?.delete_object(&bucket, &key)).await?;
        Ok(Response::new(Empty {}))
    }

    async fn create_signed_url(
        &self,
        request: Request<CreateSignedUrlRequest>,
    ) -> Result<Response<CreateSignedUrlResponse>, Status> {
        let CreateSignedUrlRequest { plugin, bucket, key, ttl } = request.into_inner();
        let negative = |_| status::odd(format!("a URL cannot be made that is valid for {ttl} ns"));
        let valid = u64::try_from(ttl).map(Duration::from_nanos).map_err(negative)?;
        let url = call(self.find(&plugin)?.create_signed_url(&bucket, &key, valid)).await?;
        Ok(Response::new(CreateSignedUrlResponse { url }))
    }
}

/// The content of an object as messages, none of them large or empty.
fn messages(content: ByteStream) -> impl Stream<Item = Result<generated::Bytes, Status>> {
    caught_stream(content).flat_map(|piece| {
        let piece = piece.map_err(|panic| status::of_panic(&panic));
        let piece = piece.and_then(|piece| piece.map_err(|error| status::of_error(&error)));
        match piece {
            Ok(piece) => stream::iter(split(piece)).map(Ok).left_stream(),
            Err(error) => stream::iter([Err(error)]).right_stream(),
        }
    })
}

fn split(mut piece: Bytes) -> impl Iterator<Item = generated::Bytes> {
    std::iter::from_fn(move || {
        let data = piece.split_to(piece.len().min(PIECE));
        (!data.is_empty()).then_some(generated::Bytes { data })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_action::ActionError;

    #[tokio::test]
    async fn an_object_is_sent_in_pieces_until_it_fails() {
        let large = Bytes::from(vec![7; PIECE + 1]);
        let content = [Ok(Bytes::new()), Ok(large), Ok(Bytes::from("x")), Err(ActionError::item("it is gone"))];
        let sent: Vec<_> = messages(stream::iter(content).boxed()).collect().await;
        let sent: Vec<Result<usize, String>> =
            sent.into_iter().map(|m| m.map(|m| m.data.len()).map_err(|e| e.message().to_owned())).collect();
        assert_eq!(sent, [Ok(PIECE), Ok(1), Ok(1), Err("it is gone".to_owned())]);
    }

    #[tokio::test]
    async fn a_panic_ends_an_object() {
        let content = stream::iter(["", "odd"]).map(|why| {
            assert!(why.is_empty(), "{why}");
            Ok(Bytes::from("x"))
        });
        let sent: Vec<_> = messages(content.boxed()).map(|m| m.map_err(|e| e.message().to_owned())).collect().await;
        let message = generated::Bytes { data: Bytes::from("x") };
        assert_eq!(sent, [Ok(message), Err("plugin panicked: odd".to_owned())]);
    }
}
